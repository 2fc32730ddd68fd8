package store

import (
	"context"
	"fmt"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

type planDoc struct {
	plan.Plan

	Mode plan.Mode `firestore:"quota_mode"` // "" without a quota, and in older documents, which are soft
}

func planToDoc(p plan.Plan) planDoc { return planDoc{Plan: p, Mode: p.Mode()} }

func (d planDoc) value() plan.Plan {
	d.Hard = d.Mode == plan.Hard
	return d.Plan
}

func (s *Store) planRef(namespace string, id plan.ID) fire.Ref {
	return s.plans().Doc(planDocument(namespace, id))
}

func planDocument(namespace string, id plan.ID) string { return namespace + "." + string(id) }

// CreatePlan stores a new plan. Its transaction reads and writes the environment, so creations
// conflict and a count after the read is exact. It may return too_many_plans.
func (s *Store) CreatePlan(ctx context.Context, p plan.Plan) (checkers.Change, error) {
	environment := s.environments().Doc(p.Namespace)
	made, err := s.commitSerially(ctx, "create plan "+string(p.ID), environment, func(ctx context.Context, tx fire.Tx, b *batch) error {
		e, err := s.txEnvironment(tx, p.Namespace)
		if err != nil {
			return err
		}
		n, err := count(ctx, s.plans().Where("namespace", "==", p.Namespace))
		if err != nil {
			return err
		}
		if n >= plan.MaxPlans {
			return problem.FromCode(problem.TooManyPlans)
		}
		b.what = "plan" // for already_exists
		b.Update(environment, fire.Fields{"plan_created_at": fire.Now})
		b.Create(s.planRef(p.Namespace, p.ID), planToDoc(p))
		s.record(ctx, b, audit.Change{Action: audit.CreatePlan, Project: e.Project, Resource: planPath(e, p.ID), New: planView(p)})
		return nil
	})
	return checkers.Change{ID: made.record, Plans: made.at}, err
}

// Plan returns a plan.
func (s *Store) Plan(ctx context.Context, namespace string, id plan.ID) (plan.Plan, error) {
	return get(ctx, s.planRef(namespace, id), "plan", decode[planDoc])
}

// EnvironmentPlans returns all plans of an environment.
func (s *Store) EnvironmentPlans(ctx context.Context, namespace string) ([]plan.Plan, error) {
	return find(ctx, s.plans().Where("namespace", "==", namespace), decode[planDoc])
}

// PlansOf returns the plans of keys, in their order; zero if a plan does not exist.
func (s *Store) PlansOf(ctx context.Context, keys []apikey.Key) ([]plan.Plan, error) {
	at := map[string]int{}
	var refs []fire.Ref
	for _, k := range keys {
		if name := planDocument(k.Namespace, k.Plan); at[name] == 0 {
			refs = append(refs, s.plans().Doc(name))
			at[name] = len(refs)
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	docs, err := s.getAll(ctx, refs...)
	if err != nil {
		return nil, fmt.Errorf("get plans: %w", err)
	}
	read, err := readAll(docs, readPlan)
	if err != nil {
		return nil, err
	}
	plans := make([]plan.Plan, len(keys))
	for i, k := range keys {
		plans[i] = read[at[planDocument(k.Namespace, k.Plan)]-1]
	}
	return plans, nil
}

func readPlan(doc fire.Doc) (plan.Plan, error) { return orZero(decode[planDoc](doc)) }

// Plans lists an environment's plans.
func (s *Store) Plans(ctx context.Context, namespace string, page Page) ([]plan.Plan, string, error) {
	return list(ctx, s.plans().Where("namespace", "==", namespace), page, decode[planDoc])
}

// UpdatePlan replaces the stored plan with the result of change.
func (s *Store) UpdatePlan(ctx context.Context, namespace string, id plan.ID, change func(plan.Plan) (plan.Plan, error)) (changed plan.Plan, c checkers.Change, err error) {
	ref := s.planRef(namespace, id)
	made, err := s.commitSerially(ctx, "update plan "+string(id), ref, func(ctx context.Context, tx fire.Tx, b *batch) error {
		stored, e, err := s.txPlan(tx, namespace, id)
		if err != nil {
			return err
		}
		if changed, err = change(stored); err != nil {
			return err
		}
		b.Change(ref, planToDoc(stored), planToDoc(changed))
		s.recordUpdate(ctx, b, audit.Change{
			Action: audit.UpdatePlan, Project: e.Project, Resource: planPath(e, id), Old: planView(stored), New: planView(changed),
		})
		return nil
	})
	return changed, checkers.Change{ID: made.record, Plans: made.at}, err
}

// DeletePlan deletes a plan, unless may returns an error for it. It returns plan_in_use if a usable
// key uses the plan.
func (s *Store) DeletePlan(ctx context.Context, namespace string, id plan.ID, may func(plan.Plan) error) error {
	return s.transact(ctx, "delete plan "+string(id), func(ctx context.Context, tx fire.Tx, b *batch) error {
		p, e, err := s.txPlan(tx, namespace, id)
		if err != nil {
			return err
		}
		if err := may(p); err != nil {
			return err
		}
		used, err := txExists(tx, s.keys().Where("namespace", "==", namespace).Where("plan", "==", id).Where("status", "in", apikey.Usable()))
		if err != nil {
			return err
		}
		if used {
			return problem.FromCode(problem.PlanInUse)
		}
		b.Delete(s.planRef(namespace, id))
		s.record(ctx, b, audit.Change{Action: audit.DeletePlan, Project: e.Project, Resource: planPath(e, id), Old: planView(p)})
		return nil
	})
}

func (s *Store) txPlan(tx fire.Tx, namespace string, id plan.ID) (plan.Plan, app.Environment, error) {
	p, err := txGet(tx, s.planRef(namespace, id), "plan", decode[planDoc])
	if err != nil {
		return plan.Plan{}, app.Environment{}, err
	}
	e, err := s.txEnvironment(tx, namespace)
	return p, e, err
}
