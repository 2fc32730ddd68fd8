package stack_test

import (
	"net/http"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/emulators/kube"
	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
)

// TestSideBySide checks that each of two stacks accepts only its own key, and that one survives
// the other.
func TestSideBySide(t *testing.T) {
	long.Only(t)
	stacks := make([]*stack.Stack, 2)
	bases := []int{freeBase(t), freeBase(t)}
	for kube.ServiceRange(bases[0]+2) == kube.ServiceRange(bases[1]+2) {
		bases[1] = freeBase(t)
	}
	var g errgroup.Group
	for i := range stacks {
		dir := t.TempDir()
		g.Go(func() error {
			var err error
			stacks[i], err = stack.Start(t.Context(), stack.Options{Root: root, Dir: dir, PortBase: bases[i], Log: t.Output(), Env: fast(), Seed: true})
			return err
		})
	}
	err := g.Wait()
	for _, s := range stacks {
		if s != nil {
			t.Cleanup(func() { _ = s.Close() })
		}
	}
	check.OK(t, err)
	expect := func(s *stack.Stack, key string, want int) {
		t.Helper()
		if status, err := ask(t.Context(), s.Info(), key); err != nil || status != want {
			t.Errorf("%s: got status %d, %v, want %d", s.Info().BaseURL, status, err, want)
		}
	}
	for i, s := range stacks {
		expect(s, s.Info().Demo.Key, http.StatusOK)
		expect(s, stacks[1-i].Info().Demo.Key, http.StatusUnauthorized)
	}
	if err := stacks[0].Close(); err != nil {
		t.Error(err)
	}
	expect(stacks[1], stacks[1].Info().Demo.Key, http.StatusOK)
}
