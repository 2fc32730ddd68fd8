package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func always(plan.Plan) error { return nil }

func TestPlan(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Environment(t, s, "shop", "prod")
	for _, limits := range []plan.Limits{
		{Rate: 0.01, Burst: 1},
		{Rate: 100_000, Burst: 1_000_000, Quota: 1_000_000_000_000, Period: plan.Week},
		{Rate: 1, Burst: 2, Quota: 3, Period: plan.Day, Hard: true},
	} {
		name := fmt.Sprintf("Burst %d", limits.Burst)
		want := plan.Plan{ID: plan.IDFor(name), Namespace: "shop-prod", Name: name, Limits: limits, CreatedAt: noon(), UpdatedAt: noon()}
		if _, err := s.CreatePlan(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		got, err := s.Plan(t.Context(), "shop-prod", want.ID)
		check.OK(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("plan (-stored +read):\n%s", diff)
		}
	}
}

func TestPlanWithoutMode(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	want := storePlan(t, s, "shop-prod", "starter")
	ref := rawClient(t, project).Collection("plans").Doc("shop-prod.plan-starter")
	if _, err := ref.Update(t.Context(), []firestore.Update{{Path: "quota_mode", Value: firestore.Delete}}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Plan(t.Context(), "shop-prod", want.ID)
	check.OK(t, err)
	check.Equal(t, "read", want, got)
	heard := hear(t, store.NewFeed(project).Plans, func(b store.Batch[plan.Plan]) bool { return len(b.Changes) == 1 }).Changes[0]
	if heard.Err != nil || heard.Value.Limits != want.Limits {
		t.Errorf("got limits %+v, %v, want those of the plan", heard.Value.Limits, heard.Err)
	}
}

func TestPlanIsUniqueInItsEnvironment(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	first := storePlan(t, s, "shop-prod", "starter")
	storePlan(t, s, "shop-staging", "starter")
	again := first
	again.Rate = 99
	if _, err := s.CreatePlan(t.Context(), again); !problem.Is(err, problem.AlreadyExists) {
		t.Errorf("second plan with the name: got %v, want already_exists", err)
	}
	if got, err := s.Plan(t.Context(), "shop-prod", first.ID); err != nil || got.Rate != first.Rate {
		t.Errorf("first plan: got %v, %v, want no change", got, err)
	}
}

func TestMissingPlan(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storePlan(t, s, "shop-staging", "starter")
	_, err := s.Plan(t.Context(), "shop-prod", "plan-starter")
	check.Problem(t, err, problem.NotFound)
	_, _, err = s.UpdatePlan(t.Context(), "shop-prod", "plan-starter", func(p plan.Plan) (plan.Plan, error) { return p, nil })
	check.Problem(t, err, problem.NotFound)
	check.Problem(t, s.DeletePlan(t.Context(), "shop-prod", "plan-starter", always), problem.NotFound)
	if plans, next, err := s.Plans(t.Context(), "shop-prod", store.Page{Size: 5}); err != nil || len(plans) > 0 || next != "" {
		t.Errorf("plans: got %v, %q, %v, want none", plans, next, err)
	}
}

func TestUpdatePlan(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	want := storePlan(t, s, "shop-prod", "starter")
	want.Name, want.Limits, want.UpdatedAt = "Renamed", plan.Limits{Rate: 2.5, Burst: 3}, noon().Add(time.Hour)
	got, _, err := s.UpdatePlan(t.Context(), "shop-prod", want.ID, func(plan.Plan) (plan.Plan, error) { return want, nil })
	check.OK(t, err)
	check.Equal(t, "result", want, got)
	refused := errors.New("refused")
	_, _, err = s.UpdatePlan(t.Context(), "shop-prod", want.ID, func(p plan.Plan) (plan.Plan, error) {
		p.Name = "never"
		return p, problem.FromCode(problem.InvalidRate).WithCause(refused)
	})
	if !problem.Is(err, problem.InvalidRate) || !errors.Is(err, refused) {
		t.Errorf("got error %v, want the error of change", err)
	}
	got, err = s.Plan(t.Context(), "shop-prod", want.ID)
	check.OK(t, err)
	check.Equal(t, "stored", want, got)
}

func TestDeletePlan(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storePlan(t, s, "shop-prod", "starter")
	storePlan(t, s, "shop-staging", "starter")
	k := storeKey(t, s, nil)
	check.Problem(t, s.DeletePlan(t.Context(), "shop-prod", "plan-starter", always), problem.PlanInUse)
	if err := s.DeletePlan(t.Context(), "shop-staging", "plan-starter", always); err != nil {
		t.Errorf("plan of the other environment: got %v, want no error", err)
	}
	storePlan(t, s, "shop-prod", "other")
	if _, _, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, toPlan("plan-other")); err != nil {
		t.Fatal(err)
	}
	if err := s.DeletePlan(t.Context(), "shop-prod", "plan-starter", always); err != nil {
		t.Errorf("plan without keys: got %v, want no error", err)
	}
	_, err := s.Plan(t.Context(), "shop-prod", "plan-starter")
	check.Problem(t, err, problem.NotFound)
}

// Either the deletion or the creation of a key fails.
func TestDeletePlanWhileKeysAreMade(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for round := range 4 {
		storePlan(t, s, "shop-prod", "starter")
		k := newKey(t)
		var made, deleted error
		var both sync.WaitGroup
		both.Go(func() { _, made = s.IssueKey(t.Context(), k, apikey.Request{}, 0) })
		both.Go(func() { deleted = s.DeletePlan(t.Context(), "shop-prod", "plan-starter", always) })
		both.Wait()
		switch {
		case made == nil:
			if !problem.Is(deleted, problem.PlanInUse) && !problem.Is(deleted, problem.Conflict) {
				t.Fatalf("round %d: key created, deletion: got %v", round, deleted)
			}
			if _, err := s.Plan(t.Context(), "shop-prod", "plan-starter"); err != nil {
				t.Fatalf("round %d: got a key without its plan: %v", round, err)
			}
			freePlan(t, s, k)
		case !problem.Is(made, problem.UnknownPlan) && !problem.Is(made, problem.Conflict):
			t.Fatalf("round %d: key rejected: got %v", round, made)
		case deleted != nil:
			t.Fatalf("round %d: got two errors: %v, %v", round, made, deleted)
		}
	}
}

// freePlan moves a key to another plan and deletes plan-starter.
func freePlan(t *testing.T, s *store.Store, k apikey.Key) {
	t.Helper()
	own := storePlan(t, s, "shop-prod", string(k.Prefix))
	if _, _, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, toPlan(own.ID)); err != nil {
		t.Fatal(err)
	}
	check.OK(t, s.DeletePlan(t.Context(), "shop-prod", "plan-starter", always))
}

func TestPlanLimit(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	storePlan(t, s, "shop-prod", "first")
	w := raw.BulkWriter(t.Context())
	for i := range plan.MaxPlans - 2 {
		if _, err := w.Create(raw.Collection("plans").Doc(fmt.Sprintf("shop-prod.plan-%d", i)), map[string]any{"namespace": "shop-prod"}); err != nil {
			t.Fatal(err)
		}
	}
	w.End()
	processes := []*store.Store{s, storetest.Open(t, project)}
	var g errgroup.Group
	var created atomic.Int64
	for i := range 3 {
		g.Go(func() error {
			_, err := processes[i%2].CreatePlan(t.Context(), plan.Plan{ID: plan.ID(fmt.Sprintf("plan-last-%d", i)), Namespace: "shop-prod", Name: "last"})
			if problem.Is(err, problem.TooManyPlans) {
				return nil
			}
			created.Add(1)
			return err
		})
	}
	if err := g.Wait(); err != nil || created.Load() != 1 {
		t.Errorf("got %d new plans in addition to %d, %v, want 1", created.Load(), plan.MaxPlans-1, err)
	}
	storePlan(t, s, "shop-staging", "elsewhere")
}

func TestPlansOfManyEnvironments(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const environments = 12
	for i := range environments {
		storetest.Environment(t, s, fmt.Sprintf("project%d", i), "prod")
	}
	var all sync.WaitGroup
	for i := range environments {
		all.Go(func() {
			for round := range 3 {
				p := plan.Plan{ID: plan.ID(fmt.Sprintf("plan-%d", round)), Namespace: fmt.Sprintf("project%d-prod", i), Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1}}
				if _, err := s.CreatePlan(t.Context(), p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
