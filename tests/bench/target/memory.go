package main

import (
	"context"
	"iter"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/bench/load"
)

// memory is a store with a fixed set of keys. It sends back canaries and discards counters.
type memory struct {
	keys     iter.Seq[load.Key]
	canaries map[store.CanaryType]chan store.Canary
}

func newMemory(keys iter.Seq[load.Key]) *memory {
	m := &memory{keys: keys, canaries: map[store.CanaryType]chan store.Canary{}}
	for _, t := range []store.CanaryType{store.CanaryKeys, store.CanaryPlans, store.CanaryCounters} {
		m.canaries[t] = make(chan store.Canary, 16)
	}
	return m
}

func (m *memory) Keys(ctx context.Context, to store.Receiver[apikey.Key]) error {
	b := store.Batch[apikey.Key]{Reset: true}
	for k := range m.keys {
		b.Changes = append(b.Changes, store.DocChange[apikey.Key]{ID: string(k.Stored.ID()), Value: k.Stored})
	}
	if err := to.Receive(b); err != nil {
		return err
	}
	b.Changes = nil
	return echo(ctx, m.canaries[store.CanaryKeys], to)
}

func (m *memory) Plans(ctx context.Context, to store.Receiver[plan.Plan]) error {
	p := load.Plan()
	err := to.Receive(store.Batch[plan.Plan]{Reset: true, Changes: []store.DocChange[plan.Plan]{{ID: p.Namespace + "." + string(p.ID), Value: p}}})
	if err != nil {
		return err
	}
	return echo(ctx, m.canaries[store.CanaryPlans], to)
}

func (m *memory) Counters(ctx context.Context, to store.Receiver[usage.Counter]) error {
	if err := to.Receive(store.Batch[usage.Counter]{Reset: true}); err != nil {
		return err
	}
	return echo(ctx, m.canaries[store.CanaryCounters], to)
}

func echo[T any](ctx context.Context, from <-chan store.Canary, to store.Receiver[T]) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case c := <-from:
			if err := to.Receive(store.Batch[T]{Canaries: []store.Canary{c}}); err != nil {
				return err
			}
		}
	}
}

func (m *memory) WriteCanary(ctx context.Context, t store.CanaryType, c store.Canary) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case m.canaries[t] <- c:
		return nil
	}
}

func (m *memory) DeleteCanary(context.Context, store.CanaryType, string) error { return nil }

// Lease and EndLeases do nothing: the plan has no hard quota.
func (m *memory) Lease(_ context.Context, _ usage.QuotaPeriod, _ string, _ bool, change func(own, others int64) int64) error {
	change(0, 0)
	return nil
}

func (m *memory) EndLeases(context.Context, []usage.Ended) ([]usage.Ended, error) { return nil, nil }

func (m *memory) WriteCounter(context.Context, usage.Counter, store.CounterVersion) (store.CounterVersion, error) {
	return store.CounterVersion{}, nil
}

func (m *memory) CounterVersion(context.Context, usage.Day, usage.CounterSource, int) (store.CounterVersion, error) {
	return store.CounterVersion{}, nil
}
