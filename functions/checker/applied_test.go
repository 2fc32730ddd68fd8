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

func (r *replica) applied(t *testing.T, query string) (status int, w checkers.Ack) {
	t.Helper()
	a := functest.Call{Method: http.MethodGet, Path: checkers.AckPath + "?" + query}.Send(t, r)
	if a.Status == http.StatusOK {
		a.Into(a.Status, &w)
	}
	return a.Status, w
}

func (r *replica) allows(t *testing.T, full string) bool {
	t.Helper()
	return r.with(full).StatusCode == http.StatusOK
}

func TestApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := serving(t, nil)
		begun := time.Now()
		status, w := r.applied(t, "")
		if status != http.StatusOK || w.Replica != "checker-0" || w.Run != r.process || w.Keys.IsZero() || w.Plans.IsZero() || time.Since(begun) != 0 {
			t.Errorf("current times: got %d, %+v after %s, want 200 immediately", status, w, time.Since(begun))
		}
		r.store.stall(true)
		change := checkers.Change{Keys: time.Now().Add(time.Millisecond)}
		go func() {
			time.Sleep(100 * time.Millisecond)
			r.store.stall(false)
		}()
		_, w = r.applied(t, change.Query())
		if w.Keys.Before(change.Keys) || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("times after %s: got %+v, want those of the change", time.Since(begun), w)
		}
		r.store.stall(true)
		later := checkers.Change{Plans: time.Now().Add(time.Hour)}
		begun = time.Now()
		if _, w = r.applied(t, later.Query()); !w.Plans.Before(later.Plans) || time.Since(begun) != checkers.AckTimeout {
			t.Errorf("times after %s: got %+v, want earlier ones at the timeout", time.Since(begun), w)
		}
		r.store.stall(false)
		r.store.set(func() { r.store.missed = true })
		synctest.Wait()
		if _, w = r.applied(t, ""); !w.Keys.IsZero() || w.Plans.IsZero() {
			t.Errorf("times after a missed key: got %+v, want none for keys", w)
		}
	})
}

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
			t.Errorf("times: got %+v, want none for keys", w)
		}
		time.Sleep(2 * r.cfg.CanaryInterval) // another canary, in another incomplete batch
		synctest.Wait()
		if r.allows(t, full) {
			t.Error("a request was allowed")
		}
	})
}

func TestInvalidCallsOfApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newFakeStore())
		for _, query := range []string{"keys=soon", "keys=", "users=2026-01-01T00:00:00Z", "keys=2026-01-01T00:00:00Z&keys=2026-01-01T00:00:00Z", "%zz", "keys=" + strings.Repeat("2", 4000)} {
			if status, _ := r.applied(t, query); status != http.StatusBadRequest {
				t.Errorf("query %.20q: got %d, want 400", query, status)
			}
		}
		for range maxAppliedCalls {
			r.appliedCalls <- struct{}{}
		}
		if status, _ := r.applied(t, ""); status != http.StatusServiceUnavailable {
			t.Errorf("one call too many: got %d, want 503", status)
		}
	})
}

func TestCanaryContents(t *testing.T) {
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
				t.Errorf("canary of %s: got %+v", kind, c)
			}
		}
	})
}

func TestOwnCanaryGone(t *testing.T) {
	t.Parallel()
	for _, kind := range store.CanaryTypes() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, full := serving(t, nil)
				if !r.allows(t, full) {
					t.Fatal("a replica with a proof denies a request")
				}
				r.store.set(func() { r.store.refused = true })
				check.OK(t, r.store.DeleteCanary(t.Context(), kind, ""))
				synctest.Wait()
				if r.allows(t, full) {
					t.Error("a replica without a canary allows a request")
				}
				r.store.set(func() { r.store.refused = false })
				time.Sleep(r.cfg.CanaryInterval)
				synctest.Wait()
				if !r.allows(t, full) {
					t.Error("the replica denies a request after its next canary")
				}
			})
		})
	}
}

func TestStoppedReplicaDenies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		if !r.allows(t, full) {
			t.Fatal("a replica with a proof denies a request")
		}
		r.stop()
		if r.allows(t, full) {
			t.Error("a stopped replica allows a request")
		}
		if len(r.store.canaries) != 0 {
			t.Errorf("canaries of a stopped replica: got %v, want none", r.store.canaries)
		}
	})
}
