package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// once receives batches until one satisfies.
type once[T any] struct {
	enough func(store.Batch[T]) bool
	got    chan store.Batch[T]
}

func (o *once[T]) Receive(b store.Batch[T]) error {
	if o.enough(b) {
		select {
		case o.got <- b:
		default:
		}
	}
	return nil
}

func (o *once[T]) Heard() {}

func hear[T any](t *testing.T, listen func(context.Context, store.Receiver[T]) error, enough func(store.Batch[T]) bool) store.Batch[T] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o := &once[T]{enough: enough, got: make(chan store.Batch[T], 1)}
	done := make(chan error, 1)
	go func() { done <- listen(ctx, o) }()
	select {
	case b := <-o.got:
		cancel()
		<-done
		return b
	case err := <-done:
		t.Fatalf("listener ended: %v", err)
	}
	return store.Batch[T]{}
}

func TestListenerReadsStoredFields(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, feed := storetest.Open(t, project), store.NewFeed(project)
	storetest.Environment(t, s, "shop", "prod")
	p := plan.Plan{ID: "plan-a", Namespace: "shop-prod", Name: "A", Limits: plan.Limits{Rate: 10, Burst: 20, Quota: 30, Period: plan.Week, Hard: true}}
	if _, err := s.CreatePlan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	k := apikey.Key{
		Prefix: "ab12cd34", Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-a", Name: "Näme",
		Status: apikey.Active, Secret: apikey.HashOf([]byte("new")), Previous: apikey.HashOf([]byte("old")), PreviousUntil: now.Add(time.Hour),
		ExpiresAt: now.Add(time.Minute), CreatedAt: now, UpdatedAt: now,
	}
	if _, err := s.IssueKey(t.Context(), k, apikey.Request{}, 0); err != nil {
		t.Fatal(err)
	}
	check.OK(t, s.WriteCanary(t.Context(), store.CanaryKeys, store.Canary{Replica: "checker-0", Run: "r", Seq: 3}))
	heard := hear(t, feed.Keys, func(b store.Batch[apikey.Key]) bool { return len(b.Changes) > 0 && len(b.Canaries) > 0 })
	want := k
	want.Project, want.CreatedAt, want.UpdatedAt = "", time.Time{}, time.Time{} // not needed by the gate
	if diff := cmp.Diff(want, heard.Changes[0].Value); diff != "" || heard.Changes[0].ID != "key-ab12cd34" {
		t.Errorf("key %s (-want +got):\n%s", heard.Changes[0].ID, diff)
	}
	if diff := cmp.Diff([]store.Canary{{Replica: "checker-0", Run: "r", Seq: 3}}, heard.Canaries); diff != "" {
		t.Errorf("canaries (-want +got):\n%s", diff)
	}
	plans := hear(t, feed.Plans, func(b store.Batch[plan.Plan]) bool { return len(b.Changes) == 1 })
	if diff := cmp.Diff(p, plans.Changes[0].Value); diff != "" || plans.Changes[0].ID != "shop-prod.plan-a" {
		t.Errorf("plan %s (-want +got):\n%s", plans.Changes[0].ID, diff)
	}
}

func TestCounterVersions(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, feed := storetest.Open(t, project), store.NewFeed(project)
	c := usage.Counter{Day: 20_000, Source: "s-1", Shard: 5, Counts: usage.Packed(nil).Pack("ab12cd34", usage.Totals{Allowed: 1})}
	first, err := s.WriteCounter(t.Context(), c, store.CounterVersion{})
	check.OK(t, err)
	late := c
	c.Counts = usage.Packed(nil).Pack("ab12cd34", usage.Totals{Allowed: 5, RateDenied: 2, QuotaDenied: 1})
	second, err := s.WriteCounter(t.Context(), c, first)
	check.OK(t, err)
	for _, base := range []store.CounterVersion{{}, first} {
		if _, err := s.WriteCounter(t.Context(), late, base); err == nil {
			t.Error("late write: got no error")
		} else if p := problem.From(err); p.Code == problem.Internal {
			t.Errorf("late write: got error %v, want a problem", err)
		}
	}
	if v, err := s.CounterVersion(t.Context(), c.Day, c.Source, c.Shard); err != nil || v != second {
		t.Errorf("version: got %v, %v, want %v", v, err, second)
	}
	if v, err := s.CounterVersion(t.Context(), c.Day, "other", 0); err != nil || v != (store.CounterVersion{}) {
		t.Errorf("version of a missing counter: got %v, %v, want zero", v, err)
	}
	heard := hear(t, feed.Counters, func(b store.Batch[usage.Counter]) bool { return len(b.Changes) == 1 })
	check.Equal(t, "counter", c, heard.Changes[0].Value)
	if heard.At.Before(second.Time()) {
		t.Errorf("got a write of %v in a batch until %v", second.Time(), heard.At)
	}
}
