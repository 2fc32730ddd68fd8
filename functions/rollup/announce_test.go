package rollup

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func announcing(s *store.Store, now time.Time) *Service {
	svc := service(s, now)
	svc.cfg.Events = true
	s.AnnounceEvents(true)
	return svc
}

func announcements(t *testing.T, s *store.Store) []event.Pending {
	t.Helper()
	waiting, err := s.Announcements(t.Context(), event.Cursor{}, 100)
	check.OK(t, err)
	for _, w := range waiting {
		check.OK(t, s.Announced(t.Context(), w.ID))
	}
	return waiting
}

func outbox(t *testing.T, s *store.Store) (quotas []string) {
	t.Helper()
	for _, w := range announcements(t, s) {
		if q := w.Quota; q != nil {
			quotas = append(quotas, fmt.Sprintf("%s %d%% %d/%d until %s", q.Key.ID, q.Percent, q.Used, q.Quota, q.ResetAt.Format(time.DateOnly)))
		}
	}
	slices.Sort(quotas)
	return quotas
}

func quotaKey(t *testing.T, s *store.Store, prefix apikey.Prefix, id plan.ID, l plan.Limits) {
	t.Helper()
	now := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	storetest.Environment(t, s, "shop", "prod")
	l.Rate, l.Burst = 1, 1
	storetest.Make(t, func() error {
		_, err := s.CreatePlan(t.Context(), plan.Plan{ID: id, Namespace: "shop-prod", Name: string(id), Limits: l, CreatedAt: now})
		return err
	})
	k := apikey.Key{
		Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: id, Status: apikey.Active, CreatedAt: now, UpdatedAt: now,
	}
	storetest.Make(t, func() error { _, err := s.IssueKey(t.Context(), k, apikey.Request{}, 0); return err })
}

func TestQuotaReached(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	quotaKey(t, s, "aaaaaaaa", "plan-daily", plan.Limits{Quota: 10, Period: plan.Day})
	quotaKey(t, s, "bbbbbbbb", "plan-monthly", plan.Limits{Quota: 20, Period: plan.Month})
	quotaKey(t, s, "cccccccc", "plan-free", plan.Limits{})
	counts := func(on string, source usage.CounterSource, a, b uint64) {
		write(t, s, on, source, 0,
			usage.Count{Prefix: "aaaaaaaa", Totals: usage.Totals{Allowed: a, QuotaDenied: 50}},
			usage.Count{Prefix: "bbbbbbbb", Totals: usage.Totals{Allowed: b}},
			usage.Count{Prefix: "cccccccc", Totals: usage.Totals{Allowed: 1000}},
			usage.Count{Prefix: "dddddddd", Totals: usage.Totals{Allowed: 1000}}) // a deleted key
	}
	old := announcing(s, at(t, "2024-03-01T10:00:00Z"))
	steps := []struct {
		now    string
		source usage.CounterSource
		a, b   uint64 // counts on the day of now
		fresh  bool   // another process
		want   []string
	}{
		{now: "2024-03-01T10:00:00Z", source: "a-1", a: 7, b: 7},
		{now: "2024-03-01T10:01:00Z", source: "b-1", a: 1, b: 3, want: []string{"key-aaaaaaaa 80% 8/10 until 2024-03-02"}},
		{now: "2024-03-01T10:02:00Z"},
		{now: "2024-03-01T10:03:00Z", fresh: true},
		{now: "2024-03-01T23:59:00Z", source: "c-1", a: 1},
		{now: "2024-03-02T00:00:20Z", source: "d-1", a: 10, b: 0, want: []string{"key-aaaaaaaa 100% 10/10 until 2024-03-03"}},
		// The first day is finalized; the month includes its rollup.
		{now: "2024-03-05T12:00:00Z", source: "e-1", a: 1, b: 7, want: []string{"key-bbbbbbbb 80% 17/20 until 2024-04-01"}},
		{now: "2024-03-05T12:01:00Z", source: "f-1", a: 1, b: 30, want: []string{"key-bbbbbbbb 100% 47/20 until 2024-04-01"}},
		{now: "2024-03-06T12:01:00Z", source: "g-1", a: 20, b: 1, fresh: true, want: []string{"key-aaaaaaaa 100% 20/10 until 2024-03-07"}},
	}
	outbox(t, s)
	for _, step := range steps {
		if step.source != "" {
			counts(step.now[:10], step.source, step.a, step.b)
		}
		svc := old
		if step.fresh {
			svc = announcing(s, at(t, step.now))
		}
		svc.now = func() time.Time { return at(t, step.now) }
		rollUp(t, svc)
		check.Equal(t, "at "+step.now, step.want, outbox(t, s))
	}
}

func TestQuotaReachedAtTheLastMoment(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	quotaKey(t, s, "aaaaaaaa", "plan-daily", plan.Limits{Quota: 10, Period: plan.Day})
	svc := announcing(s, at(t, "2024-03-01T23:59:00Z"))
	write(t, s, "2024-03-01", "a-1", 0, usage.Count{Prefix: "aaaaaaaa", Totals: usage.Totals{Allowed: 1}})
	rollUp(t, svc)
	outbox(t, s)
	write(t, s, "2024-03-01", "b-1", 0, usage.Count{Prefix: "aaaaaaaa", Totals: usage.Totals{Allowed: 9}})
	svc.now = func() time.Time { return at(t, "2024-03-02T00:00:05Z") }
	rollUp(t, svc)
	if diff := cmp.Diff([]string{"key-aaaaaaaa 100% 10/10 until 2024-03-02"}, outbox(t, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoEvents(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	quotaKey(t, s, "aaaaaaaa", "plan-daily", plan.Limits{Quota: 1, Period: plan.Day})
	write(t, s, "2024-03-01", "a-1", 0, usage.Count{Prefix: "aaaaaaaa", Totals: usage.Totals{Allowed: 5}})
	svc := service(s, at(t, "2024-03-01T23:59:00Z"))
	rollUp(t, svc)
	if waiting, err := s.Announcements(t.Context(), event.Cursor{}, 10); err != nil || len(waiting) != 0 {
		t.Errorf("got pending events %v, error %v", waiting, err)
	}
}

func TestAllDeny(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	member := func(name string, written, applied time.Duration) checkers.Member {
		return checkers.Member{Replica: name, Written: now.Add(-written), Applied: now.Add(-applied), Ceiling: 90 * time.Second}
	}
	fresh, gone := member("a", 2*time.Second, 4*time.Second), member("b", 2*time.Minute, 2*time.Minute)
	deaf := member("b", time.Second, 2*time.Minute)
	tests := []struct {
		name                  string
		keys, plans, counters []checkers.Member
		denying               bool
		checkers              int
	}{
		{"one is fresh", []checkers.Member{fresh, gone}, []checkers.Member{fresh, gone}, []checkers.Member{fresh, gone}, false, 2},
		{"cut off", []checkers.Member{gone}, []checkers.Member{gone}, []checkers.Member{gone}, true, 1},
		{"deaf", []checkers.Member{deaf}, []checkers.Member{deaf}, []checkers.Member{deaf}, true, 1},
		{"no proof for plans", []checkers.Member{fresh}, []checkers.Member{member("a", 2*time.Minute, 2*time.Minute)}, []checkers.Member{fresh}, true, 1},
		{"each without proof for another type", []checkers.Member{fresh, gone}, []checkers.Member{fresh, gone}, []checkers.Member{member("b", 0, 0), member("a", time.Hour, time.Hour)}, true, 2},
		{"not one is there", nil, nil, nil, true, 0},
	}
	for _, tt := range tests {
		list := func(m []checkers.Member) checkers.List { return checkers.List{Read: now, Members: m} }
		denying, checkers := allDeny(map[store.CanaryType]checkers.List{
			store.CanaryKeys: list(tt.keys), store.CanaryPlans: list(tt.plans), store.CanaryCounters: list(tt.counters),
		})
		if denying != tt.denying || checkers != tt.checkers {
			t.Errorf("%s: got %v, %d", tt.name, denying, checkers)
		}
	}
}

func TestGatesDeny(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.AnnounceEvents(true)
	canary := func() {
		t.Helper()
		for _, kind := range store.CanaryTypes() {
			c := store.Canary{Replica: "a", Run: "r", Seq: 1, Applied: time.Now(), Ceiling: time.Minute}
			check.OK(t, s.WriteCanary(t.Context(), kind, c))
		}
	}
	silence := func() {
		t.Helper()
		for _, kind := range store.CanaryTypes() {
			check.OK(t, s.DeleteCanary(t.Context(), kind, "a"))
		}
	}
	svc := announcing(s, time.Now())
	for i, step := range []struct {
		before func()
		fresh  bool
		want   []event.Type
	}{
		{before: canary},
		{before: silence},
		{before: canary}, // a short outage
		{before: silence},
		{want: []event.Type{event.GateDenying}},
		{fresh: true}, // another process
		{},
		{before: canary, want: []event.Type{event.GateRecovered}},
		{},
	} {
		if step.before != nil {
			step.before()
		}
		if step.fresh {
			svc = announcing(s, time.Now())
		}
		rollUp(t, svc)
		var got []event.Type
		for _, w := range announcements(t, s) {
			got = append(got, w.Type)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}
