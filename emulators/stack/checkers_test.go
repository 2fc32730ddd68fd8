package stack_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestCheckers runs three checkers through a rolling update and a revocation. tests/replicas
// uses eight checkers.
func TestCheckers(t *testing.T) {
	long.Only(t)
	const n = 3
	s, err := stack.Start(t.Context(), stack.Options{
		Root: root, Dir: t.TempDir(), PortBase: freeBase(t), Log: t.Output(), Env: fast(), Seed: true, Race: true, Checkers: n,
	})
	check.OK(t, err)
	check.Closes(t, s)
	info := s.Info()
	if list := slices.Compact(slices.Sorted(slices.Values(info.Checkers))); len(list) != n || len(info.CheckerMetrics) != n {
		t.Fatalf("got %d checkers and %d metrics addresses, want 3 of each: %v", len(list), len(info.CheckerMetrics), list)
	}
	replaced(t, s, info)
	revoked(t, s, n)
}

func replaced(t *testing.T, s *stack.Stack, before stack.Info) {
	t.Helper()
	check.OK(t, s.Roll(t.Context()))
	for i, url := range s.Info().Checkers {
		if url == before.Checkers[i] || s.Info().PIDs[fmt.Sprintf("checker-%d", i)] == before.PIDs[fmt.Sprintf("checker-%d", i)] {
			t.Errorf("checker %d at %s was not replaced", i, url)
		}
	}
}

func revoked(t *testing.T, s *stack.Stack, n int) {
	t.Helper()
	info := s.Info()
	expect := func(want int) {
		t.Helper()
		for _, r := range stacktest.Replicas(t, s) {
			if a, err := r.Check(t.Context(), "shop-prod", "hello", info.Demo.Key); err != nil || a.Status != want {
				t.Errorf("%s: got status %d, %v, want %d", r.URL, a.Status, err, want)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	api := client.New(info.BaseURL)
	session, err := api.SignIn(ctx, info.Admin.Username, info.Admin.Password)
	check.OK(t, err)
	expect(200)
	k, err := api.WithToken(session.Token).WithWait(10*time.Second).RevokeKey(ctx, "shop", info.Demo.KeyID)
	if err != nil || k.InForce == nil || !k.InForce.Everywhere {
		t.Fatalf("revoke: %+v, %v", k.InForce, err)
	}
	expect(401)
	applied := map[string]bool{}
	for _, r := range k.InForce.Replicas {
		if r.State == "applied" {
			applied[r.Replica] = true
		}
	}
	if len(applied) != n {
		t.Errorf("got %d checkers that applied the revocation, want %d: %+v", len(applied), n, k.InForce.Replicas)
	}
}
