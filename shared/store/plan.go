package store

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
)

// planDoc is a document of plans/{namespace}.{plan id}.
type planDoc struct {
	ID        string    `firestore:"id"`
	Namespace string    `firestore:"namespace"`
	Name      string    `firestore:"name"`
	Rate      float64   `firestore:"rate"`
	Burst     int64     `firestore:"burst"`
	Quota     int64     `firestore:"quota"`
	Period    string    `firestore:"quota_period"`
	CreatedAt time.Time `firestore:"created_at"`
	UpdatedAt time.Time `firestore:"updated_at"`
}

func planToDoc(p plan.Plan) planDoc {
	return planDoc{
		ID: string(p.ID), Namespace: p.Namespace, Name: p.Name,
		Rate: p.Limits.Rate, Burst: p.Limits.Burst, Quota: p.Limits.Quota, Period: string(p.Limits.Period),
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}

func (d planDoc) plan() plan.Plan {
	return plan.Plan{
		ID: plan.ID(d.ID), Namespace: d.Namespace, Name: d.Name,
		Limits:    plan.Limits{Rate: d.Rate, Burst: d.Burst, Quota: d.Quota, Period: plan.Period(d.Period)},
		CreatedAt: d.CreatedAt.UTC(), UpdatedAt: d.UpdatedAt.UTC(),
	}
}

func (s *Store) plans() *firestore.CollectionRef { return s.client.Collection("plans") }

func (s *Store) planRef(namespace string, id plan.ID) *firestore.DocumentRef {
	return s.plans().Doc(planDocument(namespace, id))
}

func planDocument(namespace string, id plan.ID) string { return namespace + "." + string(id) }

// CreatePlan stores a new plan. Its environment is read in the same transaction,
// so that it cannot be deleted meanwhile. Problems: not_found, already_exists.
func (s *Store) CreatePlan(ctx context.Context, p plan.Plan) error {
	err := s.transact(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		e, err := s.txEnvironment(tx, p.Namespace)
		if err != nil {
			return err
		}
		if err := tx.Create(s.planRef(p.Namespace, p.ID), planToDoc(p)); err != nil {
			return err
		}
		return s.txRecord(ctx, tx, audit.Change{Action: audit.CreatePlan, Project: e.Project, Resource: planPath(e, p.ID), New: planView(p)})
	})
	if err != nil {
		return fmt.Errorf("create plan %s: %w", p.ID, err)
	}
	return nil
}

// txEnvironment reads the environment of a namespace inside a transaction. Problem:
// not_found.
func (s *Store) txEnvironment(tx *firestore.Transaction, namespace string) (environmentDoc, error) {
	return txGet[environmentDoc](tx, s.environments().Doc(namespace), "environment")
}

// Plan reads one plan. Problem: not_found.
func (s *Store) Plan(ctx context.Context, namespace string, id plan.ID) (plan.Plan, error) {
	d, err := get[planDoc](ctx, s.planRef(namespace, id), "plan")
	if err != nil {
		return plan.Plan{}, err
	}
	return d.plan(), nil
}

// Plans lists an environment's plans.
func (s *Store) Plans(ctx context.Context, namespace string, page Page) ([]plan.Plan, string, error) {
	docs, next, err := list[planDoc](ctx, s.plans(), s.plans().Where("namespace", "==", namespace), page)
	if err != nil {
		return nil, "", err
	}
	plans := make([]plan.Plan, len(docs))
	for i, d := range docs {
		plans[i] = d.plan()
	}
	return plans, next, nil
}

// UpdatePlan changes a plan in a transaction: change gets what is stored and
// gives what shall be. Problem: not_found.
func (s *Store) UpdatePlan(ctx context.Context, namespace string, id plan.ID, change func(plan.Plan) (plan.Plan, error)) (plan.Plan, error) {
	var changed plan.Plan
	err := s.inTurn(ctx, s.planRef(namespace, id), func(ctx context.Context, tx *firestore.Transaction) error {
		d, err := txGet[planDoc](tx, s.planRef(namespace, id), "plan")
		if err != nil {
			return err
		}
		e, err := s.txEnvironment(tx, namespace)
		if err != nil {
			return err
		}
		if changed, err = change(d.plan()); err != nil {
			return err
		}
		if err := tx.Set(s.planRef(namespace, id), planToDoc(changed)); err != nil {
			return err
		}
		return s.txRecordUpdate(ctx, tx, audit.Change{
			Action: audit.UpdatePlan, Project: e.Project, Resource: planPath(e, id), Old: planView(d.plan()), New: planView(changed),
		})
	})
	if err != nil {
		return plan.Plan{}, fmt.Errorf("update plan %s: %w", id, err)
	}
	return changed, nil
}

// DeletePlan deletes a plan that no key uses, revoked ones aside: those open
// nothing for good. The check and the deletion are one transaction, and
// [Store.CreateKey] reads the plan in its own, so that no usable key can be left
// without its plan. Problems: not_found, plan_in_use.
func (s *Store) DeletePlan(ctx context.Context, namespace string, id plan.ID) error {
	err := s.transact(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		d, err := txGet[planDoc](tx, s.planRef(namespace, id), "plan")
		if err != nil {
			return err
		}
		e, err := s.txEnvironment(tx, namespace)
		if err != nil {
			return err
		}
		using := s.keys().Where("namespace", "==", namespace).Where("plan", "==", string(id)).
			Where("status", "in", apikey.Usable()).Limit(1)
		docs, err := tx.Documents(using).GetAll()
		if err != nil {
			return err
		}
		if len(docs) > 0 {
			return problem.Of(problem.PlanInUse)
		}
		if err := tx.Delete(s.planRef(namespace, id)); err != nil {
			return err
		}
		return s.txRecord(ctx, tx, audit.Change{Action: audit.DeletePlan, Project: e.Project, Resource: planPath(e, id), Old: planView(d.plan())})
	})
	if err != nil {
		return fmt.Errorf("delete plan %s: %w", id, err)
	}
	return nil
}
