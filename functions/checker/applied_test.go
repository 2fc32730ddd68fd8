package checker

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

// applied asks a replica what it has applied.
func (r *replica) applied(t *testing.T, query string) (status int, w checkers.Ack) {
	t.Helper()
	a := functest.Call{Method: http.MethodGet, Path: checkers.AckPath + "?" + query}.Send(t, r)
	if a.Status == http.StatusOK {
		a.Into(a.Status, &w)
	}
	return a.Status, w
}

// allows tells whether a replica lets a key through.
func (r *replica) allows(t *testing.T, full string) bool {
	t.Helper()
	return r.with(full).StatusCode == http.StatusOK
}

// TestApplied: what is asked for is waited for, no longer than the patience; what is
// said is of each data type by itself, and of this life.
func TestApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := serving(t, nil)
		begun := time.Now()
		status, w := r.applied(t, "")
		if status != http.StatusOK || w.Replica != "checker-0" || w.Run != r.process || w.Keys.IsZero() || w.Plans.IsZero() || time.Since(begun) != 0 {
			t.Errorf("%d %+v", status, w)
		}
		r.store.stall(true)
		change := checkers.Change{Keys: time.Now().Add(time.Millisecond)}
		go func() {
			time.Sleep(100 * time.Millisecond)
			r.store.stall(false)
		}()
		_, w = r.applied(t, change.Query())
		if w.Keys.Before(change.Keys) || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("after %s it says %+v", time.Since(begun), w)
		}
		r.store.stall(true)
		later := checkers.Change{Plans: time.Now().Add(time.Hour)}
		begun = time.Now()
		if _, w = r.applied(t, later.Query()); !w.Plans.Before(later.Plans) || time.Since(begun) != checkers.AckTimeout {
			t.Errorf("after %s it says %+v", time.Since(begun), w)
		}
		r.store.stall(false)
		r.store.set(func() { r.store.missed = true })
		synctest.Wait()
		if _, w = r.applied(t, ""); !w.Keys.IsZero() || w.Plans.IsZero() {
			t.Errorf("in doubt it says %+v", w)
		}
	})
}

// TestMissedChange tests that a batch from which a change is missing is not reported as
// applied, and that its canary proves nothing.
func TestMissedChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		r.store.stall(true)
		change := checkers.Change{Keys: time.Now().Add(time.Millisecond)}
		go func() {
			time.Sleep(100 * time.Millisecond)
			r.store.set(func() { r.store.missed, r.store.stalled = true, false })
		}()
		if _, w := r.applied(t, change.Query()); !w.Keys.IsZero() {
			t.Errorf("applied %+v, want no time for the keys", w)
		}
		time.Sleep(2 * r.cfg.CanaryInterval) // another canary comes back, in a batch that is wrong, too
		synctest.Wait()
		if r.allows(t, full) {
			t.Error("a request was allowed")
		}
	})
}

func TestAppliedIsAskedProperly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newFakeStore())
		for _, query := range []string{"keys=soon", "keys=", "users=2026-01-01T00:00:00Z", "keys=2026-01-01T00:00:00Z&keys=2026-01-01T00:00:00Z", "%zz", "keys=" + strings.Repeat("2", 4000)} {
			if status, _ := r.applied(t, query); status != http.StatusBadRequest {
				t.Errorf("%.20q: %d", query, status)
			}
		}
		for range asking {
			r.asked <- struct{}{}
		}
		if status, _ := r.applied(t, ""); status != http.StatusServiceUnavailable {
			t.Errorf("one more than may ask: %d", status)
		}
	})
}

// TestCanarySays: a canary carries what is applied as it is written.
func TestCanarySays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		r := newReplica(t, f)
		time.Sleep(2 * r.cfg.CanaryInterval)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, kind := range store.CanaryTypes() {
			c := f.canaries[kind]
			if c.Applied.IsZero() || c.Ceiling != Ceiling || c.Address != "[2001:db8::1]:8443" || c.Run != r.process {
				t.Errorf("%s: %+v", kind, c)
			}
		}
	})
}

// TestOwnCanaryGone: whoever deletes a replica's canary, it serves again only once the
// next one has come back: until then nobody would wait for it.
func TestOwnCanaryGone(t *testing.T) {
	t.Parallel()
	for _, kind := range store.CanaryTypes() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, full := serving(t, nil)
				if !r.allows(t, full) {
					t.Fatal("it does not serve")
				}
				r.store.set(func() { r.store.refused = true })
				check.OK(t, r.store.DeleteCanary(t.Context(), kind, ""))
				synctest.Wait()
				if r.allows(t, full) {
					t.Error("it serves without being on the list")
				}
				r.store.set(func() { r.store.refused = false })
				time.Sleep(r.cfg.CanaryInterval)
				synctest.Wait()
				if !r.allows(t, full) {
					t.Error("it does not serve again")
				}
			})
		})
	}
}

// TestLeaves: a replica that ends is off the list, and lets nobody through any more.
func TestLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		if !r.allows(t, full) {
			t.Fatal("it does not serve")
		}
		r.stop()
		if r.allows(t, full) {
			t.Error("it serves on")
		}
		if len(r.store.canaries) != 0 {
			t.Errorf("on the list: %v", r.store.canaries)
		}
	})
}
