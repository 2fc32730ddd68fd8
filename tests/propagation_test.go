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

// TestWaitForPropagation checks that a call with wait returns only when its change is in force at every
// replica. It is not parallel; see [TestPropagation].
func TestWaitForPropagation(t *testing.T) {
	const lanes, keysPerLane, maxP99 = 2, 100, 2 * time.Second
	s := stacktest.New(t, world)
	waiting := s.Client.WithWait(10 * time.Second)
	plan := s.Plan(wire.CreatePlan{})
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			for range keysPerLane {
				d, ok := measureRevocation(t, s, func(ctx context.Context) (wire.Key, string, error) {
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
	if len(took) < lanes*keysPerLane {
		t.Fatalf("trials: got %d, want %d", len(took), lanes*keysPerLane)
	}
	slices.Sort(took)
	p99 := took[(len(took)*99+99)/100-1]
	t.Logf("revocation with wait: median %v, p99 %v, longest %v (n=%d, %d concurrent)",
		took[len(took)/2].Round(time.Millisecond), p99.Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), len(took), lanes)
	if p99 > maxP99 {
		t.Errorf("p99: got %v, want at most %v", p99, maxP99)
	}
}

// measureRevocation revokes a key while every replica serves requests for it.
func measureRevocation(t *testing.T, s *stacktest.Site, create func(context.Context) (wire.Key, string, error),
	revoke func(ctx context.Context, project, key string) (wire.Key, error),
) (time.Duration, bool) {
	t.Helper()
	k, full, err := create(t.Context())
	if err != nil || k.InForce == nil || !k.InForce.Everywhere {
		t.Errorf("create: got %+v, %v, want it in force everywhere", k.InForce, err)
		return 0, false
	}
	var revoked atomic.Int64 // time of the response in Unix nanoseconds
	var clients sync.WaitGroup
	for _, r := range stacktest.Replicas(t, s.Stack) {
		clients.Go(func() {
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
					t.Errorf("%s: got %d for a key that is in force, want 200", r.URL, a.Status)
				case over != 0 && sent > over && a.Status == http.StatusOK:
					t.Errorf("%s: got 200 for a request sent %s after the revocation was in force, want 401", r.URL, time.Duration(sent-over))
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
	clients.Wait()
	if err != nil || k.InForce == nil || !k.InForce.Everywhere || len(k.InForce.Replicas) < 2 {
		t.Errorf("revoke: got %+v, %v, want it in force everywhere, at 2 replicas or more", k.InForce, err)
		return 0, false
	}
	return took, true
}
