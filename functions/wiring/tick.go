package wiring

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/sluicegate/sluice/shared/app"
)

// tick looks at every app and works on those that need it, several at a time. One
// tick runs at a time; another that comes meanwhile has nothing to add.
func (s *Service) tick(ctx context.Context) error {
	select {
	case s.ticking <- struct{}{}:
		defer func() { <-s.ticking }()
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	ca, err := s.certify(ctx)
	if err != nil {
		return err
	}
	todo, err := s.todo(ctx, ca)
	if err != nil {
		return err
	}
	// In another order each time: if a tick ends early, it is not always the same
	// apps that go without.
	rand.Shuffle(len(todo), func(i, k int) { todo[i], todo[k] = todo[k], todo[i] }) //nolint:gosec // an order is no secret
	s.workOn(ctx, todo, ca)
	return nil
}

// todo lists the apps whose objects or gate need work. The lists are a first
// impression; the work itself looks again at each app.
func (s *Service) todo(ctx context.Context, ca []byte) ([]app.Ref, error) {
	inventory, err := s.viewer.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	var todo []app.Ref
	there, gates := map[app.Ref]bool{}, map[app.GateState]int{}
	for a, err := range s.apps.AllApps(ctx) {
		if err != nil {
			return nil, err
		}
		there[a.Ref()] = true
		gates[a.Gate.State]++
		if p := decide(a, s.viewer.State(inventory.Of(a.Ref()), a, ca), s.proofs.due(a.Ref(), s.now())); !p.idle() {
			todo = append(todo, a.Ref())
		}
	}
	s.proofs.keepOnly(there)
	s.gauges.count(gates)
	return todo, nil
}

// workOn works on apps at the same time, as many as there are workers, until all
// are done or ctx ends.
func (s *Service) workOn(ctx context.Context, todo []app.Ref, ca []byte) {
	next := make(chan app.Ref)
	var group sync.WaitGroup
	for range min(s.cfg.Workers, len(todo)) {
		group.Go(func() {
			for ref := range next {
				s.jobs.run(ctx, ref, false, func(ctx context.Context) { s.work(ctx, ref, ca) })
			}
		})
	}
	defer group.Wait()
	defer close(next)
	for _, ref := range todo {
		select {
		case next <- ref:
		case <-ctx.Done():
			return
		}
	}
}
