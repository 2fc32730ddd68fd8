package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestDeleteStaleCanaries(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	all := []store.CanaryType{store.CanaryKeys, store.CanaryPlans, store.CanaryCounters}
	for _, kind := range all {
		for _, replica := range []string{"a", "b"} {
			check.OK(t, s.WriteCanary(t.Context(), kind, store.Canary{Replica: replica, Run: "r", Seq: 1}))
		}
	}
	for _, id := range []string{"canary", "canary-a", "canary0", "canaries.a"} {
		if _, err := raw.Doc("keys/"+id).Set(t.Context(), map[string]any{"x": 1}); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := raw.Doc("keys/canary.a").Get(t.Context())
	check.OK(t, err)
	if n, err := s.DeleteStaleCanaries(t.Context(), snap.UpdateTime.Add(-time.Second)); err != nil || n != 0 {
		t.Errorf("fresh canaries: got %d deleted, %v, want 0", n, err)
	}
	if n, err := s.DeleteStaleCanaries(t.Context(), snap.UpdateTime.Add(time.Hour)); err != nil || n != 6 {
		t.Errorf("stale canaries: got %d deleted, %v, want 6", n, err)
	}
	left, err := raw.Collection("keys").Documents(t.Context()).GetAll()
	if err != nil || len(left) != 4 {
		t.Errorf("remaining documents: got %d, %v, want 4", len(left), err)
	}
}

func TestMembersAreReadFromCanaries(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	if list, err := s.Members(t.Context(), store.CanaryKeys); err != nil || len(list.Members) != 0 || list.Read.IsZero() {
		t.Errorf("empty collection: got %+v, %v, want no members and a read time", list, err)
	}
	applied, key := time.Date(2026, 3, 14, 12, 0, 0, 123456000, time.UTC), checkers.NewQueryKey()
	for _, c := range []store.Canary{
		{Replica: "b", Run: "r", Seq: 1, Applied: applied, Ceiling: 4 * time.Second, Address: "10.0.0.7:8443", Key: key, Features: checkers.Features()},
		{Replica: "a", Run: "q", Seq: 9},
	} {
		check.OK(t, s.WriteCanary(t.Context(), store.CanaryKeys, c))
	}
	check.OK(t, s.WriteCanary(t.Context(), store.CanaryPlans, store.Canary{Replica: "c", Run: "r", Seq: 1}))
	list, err := s.Members(t.Context(), store.CanaryKeys)
	check.OK(t, err)
	for i := range list.Members {
		id := "keys/canary." + list.Members[i].Replica
		snap, err := raw.Doc(id).Get(t.Context())
		if err != nil || !snap.UpdateTime.Equal(list.Members[i].Written) || list.Read.Before(snap.UpdateTime) {
			t.Errorf("canary %s of %v (%v): got a list of %v with the time %v", id, snap.UpdateTime, err, list.Read, list.Members[i].Written)
		}
		list.Members[i].Written = time.Time{}
	}
	want := []checkers.Member{
		{Replica: "a", Run: "q", Applied: list.Members[0].Applied, Ceiling: 90 * time.Second},
		{Replica: "b", Run: "r", Applied: applied, Ceiling: 4 * time.Second, Address: "10.0.0.7:8443", Key: key, Features: checkers.Features()},
	}
	if diff := cmp.Diff(want, list.Members); diff != "" || !list.Members[0].Applied.IsZero() {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if got := list.Without(checkers.RouteGenerations); got != "a" {
		t.Errorf("member without the feature: got %q, want a", got)
	}
	if got := (checkers.List{Members: list.Members[1:]}).Without(checkers.RouteGenerations); got != "" {
		t.Errorf("member without the feature: got %q, want none", got)
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	storetest.Environment(t, s, "shop", "prod")
	committed := func(path string) time.Time {
		t.Helper()
		snap, err := raw.Doc(path).Get(t.Context())
		check.OK(t, err)
		return snap.UpdateTime
	}
	same := func(what string, c, want checkers.Change) {
		t.Helper()
		want.ID = c.ID
		if diff := cmp.Diff(want, c); diff != "" || c.ID == "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		later, err := s.Change(t.Context(), "shop", c.ID)
		if diff := cmp.Diff(c, later); diff != "" || err != nil {
			t.Errorf("%s, read later: %v (-want +got):\n%s", what, err, diff)
		}
	}
	made, err := s.CreatePlan(t.Context(), plan.Plan{ID: "plan-starter", Namespace: "shop-prod", Name: "Starter", Limits: plan.Limits{Rate: 1, Burst: 1}})
	check.OK(t, err)
	planAt := committed("plans/shop-prod.plan-starter")
	same("a plan", made, checkers.Change{Plans: planAt})
	k := newKey(t)
	issued, err := s.IssueKey(t.Context(), k, apikey.Request{}, 0)
	check.OK(t, err)
	same("a key, which its plan must be there for", issued, checkers.Change{Keys: committed("keys/" + string(k.ID())), Plans: planAt})
	revoke := func(k apikey.Key) (apikey.Key, error) { return k.Revoke(noon(), "ada"), nil }
	_, revoked, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, revoke)
	check.OK(t, err)
	same("a revocation", revoked, checkers.Change{Keys: committed("keys/" + string(k.ID()))})
	_, again, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, revoke)
	if diff := cmp.Diff(checkers.Change{Keys: revoked.Keys}, again); diff != "" || err != nil {
		t.Errorf("unchanged key: %v (-want +got):\n%s", err, diff)
	}
}
