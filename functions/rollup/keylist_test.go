package rollup

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/store/storetest"
	"github.com/sluicegate/sluice/shared/usage"
)

// The list of keys gets the keys of an earlier release, loses those that it deleted, and has
// the day of each key's last use.
func TestListOfKeys(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storetest.Environment(t, s, "shop", "prod")
	now := at(t, "2024-03-03T12:00:00Z")
	_, err := s.CreatePlan(t.Context(), plan.Plan{ID: "plan-a", Namespace: "shop-prod", Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: now})
	if err != nil {
		t.Fatal(err)
	}
	issue := func(prefix apikey.Prefix, updated time.Time) {
		t.Helper()
		_, err := s.IssueKey(t.Context(), apikey.Key{
			Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-a", Status: apikey.Active,
			Secret: apikey.HashOf([]byte(prefix)), CreatedAt: updated, UpdatedAt: updated,
		}, apikey.Request{}, 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	entry := func(prefix string) string { return "keylist/key-" + prefix }
	for _, prefix := range []apikey.Prefix{"aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"} {
		issue(prefix, now.Add(-24*time.Hour))
	}
	storetest.Change(t, project, entry("bbbbbbbb"), nil)   // an earlier release has no list
	storetest.Change(t, project, "keys/key-cccccccc", nil) // it deletes keys only
	write(t, s, "2024-03-02", "a-1", 0, one("aaaaaaaa"), one("bbbbbbbb"))
	ready := func() bool {
		t.Helper()
		ready, err := s.KeyListReady(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ready
	}
	listed := func() (all []string) {
		t.Helper()
		found, err := s.FindKeys(t.Context(), store.KeySearch{KeyFilter: store.KeyFilter{Project: "shop", Environment: "prod"}, LastSeen: true}, store.KeyPlace{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range found {
			all = append(all, fmt.Sprintf("%s %s", c.Prefix, c.Place.Value))
		}
		return all
	}
	if ready() {
		t.Error("the list is ready before the first run")
	}
	svc := service(s, now)
	if r := rollUp(t, svc); r.Listed != 2 || !ready() {
		t.Errorf("corrected %d entries, want 2; ready: %v", r.Listed, ready())
	}
	if diff := cmp.Diff([]string{"bbbbbbbb 2024-03-02", "aaaaaaaa 2024-03-02", "dddddddd "}, listed()); diff != "" {
		t.Errorf("listed keys (-want +got):\n%s", diff)
	}
	issue("eeeeeeee", now)
	storetest.Change(t, project, entry("eeeeeeee"), nil) // of an earlier release
	write(t, s, "2024-03-03", "a-1", 0, one("dddddddd"))
	svc.now = func() time.Time { return now.Add(time.Minute) }
	if r := rollUp(t, svc); r.Listed != 1 {
		t.Errorf("corrected %d entries, want that of the changed key", r.Listed)
	}
	if diff := cmp.Diff([]string{"dddddddd 2024-03-03", "bbbbbbbb 2024-03-02", "aaaaaaaa 2024-03-02", "eeeeeeee "}, listed()); diff != "" {
		t.Errorf("listed keys (-want +got):\n%s", diff)
	}
	err = s.UpdateRollups(t.Context(), []apikey.Prefix{"dddddddd"}, func(apikey.Prefix, usage.History) usage.History { return nil })
	if got := listed()[0]; err != nil || got != "bbbbbbbb 2024-03-02" {
		t.Errorf("the first key is %q, %v, after the days of dddddddd have left the retention", got, err)
	}
}
