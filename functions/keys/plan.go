package keys

import (
	"context"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/plan/planwire"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listPlans(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Plan], error) {
	plans, next, err := s.store.Plans(ctx, in.Environment.Namespace, store.Page(page))
	return wire.ListOf(plans, next, planwire.Wire), err
}

func (s *Service) createPlan(ctx context.Context, in httpapi.Scope, body wire.CreatePlan) (wire.Plan, checkers.Change, error) {
	name, limits, err := planwire.New(body)
	if err != nil {
		return wire.Plan{}, checkers.Change{}, err
	}
	now := s.changeTime()
	p := plan.Plan{ID: plan.IDFor(name), Namespace: in.Environment.Namespace, Name: name, Limits: limits, CreatedAt: now, UpdatedAt: now}
	change, err := s.store.CreatePlan(ctx, p)
	in.SetETag(p)
	return planwire.Wire(p), change, err
}

func (s *Service) getPlan(ctx context.Context, in httpapi.Scope, _ api.None) (wire.Plan, error) {
	id, err := plan.ParseID(in.Param("plan_id"))
	if err != nil {
		return wire.Plan{}, err
	}
	p, err := s.store.Plan(ctx, in.Environment.Namespace, id)
	in.SetETag(p)
	return planwire.Wire(p), err
}

func (s *Service) updatePlan(ctx context.Context, in httpapi.Scope, body wire.UpdatePlan) (wire.Plan, checkers.Change, error) {
	id, err := plan.ParseID(in.Param("plan_id"))
	if err != nil {
		return wire.Plan{}, checkers.Change{}, err
	}
	now := s.changeTime()
	p, change, err := s.store.UpdatePlan(ctx, in.Environment.Namespace, id, func(p plan.Plan) (plan.Plan, error) {
		if err := in.Match.Check(p); err != nil {
			return plan.Plan{}, err
		}
		return planwire.Change(p, body, now)
	})
	in.SetETag(p)
	return planwire.Wire(p), change, err
}

func (s *Service) deletePlan(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	id, err := plan.ParseID(in.Param("plan_id"))
	if err != nil {
		return api.None{}, err
	}
	return api.None{}, s.store.DeletePlan(ctx, in.Environment.Namespace, id, func(p plan.Plan) error { return in.Match.Check(p) })
}
