package tests

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestInForce: a key that was created opens at every replica as soon as the call says
// that it does, and one that was revoked opens at none: of the requests that were sent
// after the answer, to either replica, while both serve others of the same key, not one
// is allowed. It measures how long such a call takes (promise F7).
//
// It does not run in parallel, like TestPropagation.
func TestInForce(t *testing.T) {
	const lanes, trials, patience = 2, 100, 2 * time.Second
	s := stacktest.New(t, world)
	waiting := s.Client.Waiting(10 * time.Second)
	plan := s.Plan(wire.CreatePlan{})
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			for range trials {
				d, ok := inForce(t, s, func(ctx context.Context) (wire.Key, string, error) {
					k, full, err := waiting.CreateKey(ctx, s.Project, s.Env, wire.CreateKey{Plan: &plan.ID})
					return k, string(full), err
				}, waiting.RevokeKey)
				if !ok {
					return
				}
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(took) < lanes*trials {
		t.Fatalf("%d trials of %d", len(took), lanes*trials)
	}
	slices.Sort(took)
	p99 := took[(len(took)*99+99)/100-1]
	t.Logf("a revocation that waits: median %v, p99 %v, longest %v (n=%d, %d at once)",
		took[len(took)/2].Round(time.Millisecond), p99.Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), len(took), lanes)
	if p99 > patience {
		t.Errorf("p99 %v, want at most %v", p99, patience)
	}
}

// inForce lets one key live and die, and tells how long its revocation took.
func inForce(t *testing.T, s *stacktest.Site, create func(context.Context) (wire.Key, string, error),
	revoke func(ctx context.Context, project, key string) (wire.Key, error),
) (time.Duration, bool) {
	t.Helper()
	k, full, err := create(t.Context())
	if err != nil || k.InForce == nil || !k.InForce.Everywhere {
		t.Errorf("create: %+v, %v", k.InForce, err)
		return 0, false
	}
	var revoked atomic.Int64 // when the answer came, in Unix nanoseconds
	var users sync.WaitGroup
	for _, r := range stacktest.Replicas(t, s.Stack) {
		users.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for last := 0; last < 3; <-tick.C {
				sent, over := time.Now().UnixNano(), revoked.Load()
				a, err := r.Check(t.Context(), s.Project+"-"+s.Env, "hello", full)
				switch {
				case err != nil:
					t.Errorf("%s: %v", r.URL, err)
					return
				case over == 0 && a.Status != http.StatusOK && revoked.Load() == 0 && a.Status != http.StatusUnauthorized:
					t.Errorf("%s answers %d to a key that it is said to know", r.URL, a.Status)
				case over != 0 && sent > over && a.Status == http.StatusOK:
					t.Errorf("%s allows a request that was sent %s after the revocation was said to be in force", r.URL, time.Duration(sent-over))
				}
				if over != 0 {
					last++
				}
			}
		})
	}
	begun := time.Now()
	k, err = revoke(context.WithoutCancel(t.Context()), s.Project, k.ID)
	took := time.Since(begun)
	revoked.Store(time.Now().UnixNano())
	users.Wait()
	if err != nil || k.InForce == nil || !k.InForce.Everywhere || len(k.InForce.Replicas) < 2 {
		t.Errorf("revoke: %+v, %v", k.InForce, err)
		return 0, false
	}
	return took, true
}
