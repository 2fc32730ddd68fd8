package rollup

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestListOfKeys(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storetest.Environment(t, s, "shop", "prod")
	now := time.Now().UTC() // within the validity of the list by the store's clock
	today, before := usage.DayOf(now).String(), (usage.DayOf(now) - 1).String()
	_, err := s.CreatePlan(t.Context(), plan.Plan{ID: "plan-a", Namespace: "shop-prod", Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: now})
	check.OK(t, err)
	issue := func(prefix apikey.Prefix, updated time.Time) {
		t.Helper()
		_, err := s.IssueKey(t.Context(), apikey.Key{
			Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-a", Status: apikey.Active,
			Secret: apikey.HashOf([]byte(prefix)), CreatedAt: updated, UpdatedAt: updated,
		}, apikey.Request{}, 0)
		check.OK(t, err)
	}
	entry := func(prefix string) string { return "keylist/key-" + prefix }
	for _, prefix := range []apikey.Prefix{"aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"} {
		issue(prefix, now.Add(-24*time.Hour))
	}
	storetest.Change(t, project, entry("bbbbbbbb"), nil)   // an earlier release does not write the list
	storetest.Change(t, project, "keys/key-cccccccc", nil) // an earlier release deletes only the key
	write(t, s, before, "a-1", 0, one("aaaaaaaa"), one("bbbbbbbb"))
	ready := func() bool {
		t.Helper()
		ready, err := s.KeyListReady(t.Context())
		check.OK(t, err)
		return ready
	}
	listed := func() (all []string) {
		t.Helper()
		found, err := s.FindKeys(t.Context(), store.KeySearch{KeyFilter: store.KeyFilter{Project: "shop", Environment: "prod"}, LastSeen: true}, store.KeyPlace{}, 100)
		check.OK(t, err)
		for _, c := range found {
			all = append(all, fmt.Sprintf("%s %s", c.Prefix, c.Place.Value))
		}
		return all
	}
	if ready() {
		t.Error("ready before the first run: got true")
	}
	svc := service(s, now)
	if r := rollUp(t, svc); r.Listed != 2 || !ready() {
		t.Errorf("corrected entries: got %d, want 2; ready: %v", r.Listed, ready())
	}
	check.Equal(t, "listed keys", []string{"bbbbbbbb " + before, "aaaaaaaa " + before, "dddddddd "}, listed())
	issue("eeeeeeee", now)
	storetest.Change(t, project, entry("eeeeeeee"), nil) // as by an earlier release
	write(t, s, today, "a-1", 0, one("dddddddd"))
	svc.now = func() time.Time { return now.Add(time.Minute) }
	if r := rollUp(t, svc); r.Listed != 1 {
		t.Errorf("corrected entries: got %d, want that of the changed key", r.Listed)
	}
	check.Equal(t, "listed keys", []string{"dddddddd " + today, "bbbbbbbb " + before, "aaaaaaaa " + before, "eeeeeeee "}, listed())
	storetest.Change(t, project, "marks/keylist", map[string]any{"version": 1})
	if ready() {
		t.Error("with entries of an earlier release: got ready, want a new pass first")
	}
	rollUp(t, svc)
	if !ready() {
		t.Error("after a new pass: got not ready")
	}
	err = s.UpdateRollups(t.Context(), []apikey.Prefix{"dddddddd"}, func(apikey.Prefix, usage.History) usage.History { return nil })
	if got := listed()[0]; err != nil || got != "bbbbbbbb "+before {
		t.Errorf("first key after the retention of dddddddd: got %q, %v", got, err)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, prefix := range []apikey.Prefix{"aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"} {
		quotaKey(t, s, prefix, plan.ID("plan-"+prefix), plan.Limits{Quota: 10, Period: plan.Day})
	}
	now := time.Now().UTC()
	today := usage.DayOf(now)
	totals := func(allowed, rate uint64) usage.Totals { return usage.Totals{Allowed: allowed, RateDenied: rate} }
	write(t, s, (today - 4).String(), "a-1", 0, usage.Count{Prefix: "aaaaaaaa", Totals: totals(1, 0)}, usage.Count{Prefix: "bbbbbbbb", Totals: totals(5, 1)})
	write(t, s, (today - 3).String(), "a-1", 0, usage.Count{Prefix: "aaaaaaaa", Totals: totals(2, 0)})
	write(t, s, today.String(), "a-1", 0,
		usage.Count{Prefix: "aaaaaaaa", Totals: totals(9, 0)}, usage.Count{Prefix: "cccccccc", Totals: totals(3, 1)}, usage.Count{Prefix: "dddddddd", Totals: totals(7, 0)})
	for range 2 { // the second time with a new process
		rollUp(t, service(s, now))
		got, ok, err := s.Summary(t.Context(), "shop-prod")
		want := store.Summary{
			Days:    usage.History{{Day: today - 4, Totals: totals(6, 1)}, {Day: today - 3, Totals: totals(2, 0)}},
			Settled: today - 3, Busiest: []apikey.Prefix{"bbbbbbbb", "aaaaaaaa"},
			Used: []apikey.Prefix{"aaaaaaaa", "cccccccc", "dddddddd"}, Attention: []apikey.Prefix{"aaaaaaaa", "cccccccc"},
		}
		if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
			t.Errorf("ready: %v, %v; summary (-want +got):\n%s", ok, err, diff)
		}
	}
}
