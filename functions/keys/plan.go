package keys

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/inforce"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listPlans(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Plan], error) {
	plans, next, err := s.store.Plans(ctx, in.Environment.Namespace, store.Page(page))
	return wire.ListOf(plans, next, wirePlan), err
}

func (s *Service) createPlan(ctx context.Context, in httpapi.Scope, body wire.CreatePlan) (wire.Plan, inforce.Change, error) {
	name, limits, err := newPlan(body)
	if err != nil {
		return wire.Plan{}, inforce.Change{}, err
	}
	now := s.moment()
	p := plan.Plan{ID: plan.IDFor(name), Namespace: in.Environment.Namespace, Name: name, Limits: limits, CreatedAt: now, UpdatedAt: now}
	change, err := s.store.CreatePlan(ctx, p)
	return wirePlan(p), change, err
}

func (s *Service) getPlan(ctx context.Context, in httpapi.Scope, _ api.None) (wire.Plan, error) {
	id, err := planID(in)
	if err != nil {
		return wire.Plan{}, err
	}
	p, err := s.store.Plan(ctx, in.Environment.Namespace, id)
	return wirePlan(p), err
}

func (s *Service) updatePlan(ctx context.Context, in httpapi.Scope, body wire.UpdatePlan) (wire.Plan, inforce.Change, error) {
	id, err := planID(in)
	if err != nil {
		return wire.Plan{}, inforce.Change{}, err
	}
	now := s.moment()
	p, change, err := s.store.UpdatePlan(ctx, in.Environment.Namespace, id, func(p plan.Plan) (plan.Plan, error) {
		return changePlan(p, body, now)
	})
	return wirePlan(p), change, err
}

func (s *Service) deletePlan(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	id, err := planID(in)
	if err != nil {
		return api.None{}, err
	}
	return api.None{}, s.store.DeletePlan(ctx, in.Environment.Namespace, id)
}

// planID takes the plan's id from the path. Problem: not_found.
func planID(in httpapi.Scope) (plan.ID, error) {
	id := in.Param("plan_id")
	if !plan.ValidID(id) {
		return "", problem.New(problem.NotFound, "There is no such plan.")
	}
	return plan.ID(id), nil
}

// newPlan checks what a plan is created from. Problems: missing_field,
// invalid_name, invalid_rate, invalid_burst, invalid_quota.
func newPlan(in wire.CreatePlan) (name string, l plan.Limits, err error) {
	switch {
	case in.Name == nil:
		return "", l, httpapi.Missing("name")
	case in.Rate == nil:
		return "", l, httpapi.Missing("rate")
	case in.Burst == nil:
		return "", l, httpapi.Missing("burst")
	}
	if err := plan.CheckName(*in.Name); err != nil {
		return "", l, err
	}
	l = plan.Limits{Rate: *in.Rate, Burst: *in.Burst}
	l, err = withQuota(l, in.Quota, in.QuotaPeriod)
	return *in.Name, l, err
}

// changePlan gives p with what the body names. A body that names nothing gives p
// as it is. Problems: as for newPlan.
func changePlan(p plan.Plan, in wire.UpdatePlan, now time.Time) (plan.Plan, error) {
	if in == (wire.UpdatePlan{}) {
		return p, nil
	}
	err := firstError(
		set("name", in.Name, &p.Name),
		set("rate", in.Rate, &p.Limits.Rate),
		set("burst", in.Burst, &p.Limits.Burst),
	)
	if err != nil {
		return plan.Plan{}, err
	}
	if err := plan.CheckName(p.Name); err != nil {
		return plan.Plan{}, err
	}
	quota, period := changeQuota(p.Limits, in)
	if p.Limits, err = withQuota(p.Limits, quota, period); err != nil {
		return plan.Plan{}, err
	}
	p.UpdatedAt = now
	return p, nil
}

// changeQuota gives the quota's two fields as they are after the change. null in
// one takes both away, unless the other one is given as well: then they do not
// fit together, and withQuota says so.
func changeQuota(l plan.Limits, in wire.UpdatePlan) (quota *int64, period *string) {
	removed := in.Quota.Set && in.Quota.Value == nil || in.QuotaPeriod.Set && in.QuotaPeriod.Value == nil
	if !removed {
		quota, period = quotaFields(l)
	}
	if in.Quota.Set {
		quota = in.Quota.Value
	}
	if in.QuotaPeriod.Set {
		period = in.QuotaPeriod.Value
	}
	return quota, period
}

// withQuota gives l with a quota, or none when both are nil, and checks the
// whole. In the domain a quota of 0 and a period of "" mean none; on the wire they
// are values, and out of range. Problems: invalid_rate, invalid_burst, invalid_quota.
func withQuota(l plan.Limits, quota *int64, period *string) (plan.Limits, error) {
	l.Quota, l.Period = 0, ""
	if quota != nil && *quota == 0 || period != nil && *period == "" {
		return l, problem.Of(problem.InvalidQuota)
	}
	if quota != nil {
		l.Quota = *quota
	}
	if period != nil {
		l.Period = plan.Period(*period)
	}
	return l, l.Check()
}

// quotaFields gives the wire form of a quota: two nulls for none.
func quotaFields(l plan.Limits) (quota *int64, period *string) {
	if l.Quota == 0 {
		return nil, nil
	}
	p := string(l.Period)
	return &l.Quota, &p
}

func wirePlan(p plan.Plan) wire.Plan {
	out := wire.Plan{ID: string(p.ID), Name: p.Name, Rate: p.Limits.Rate, Burst: p.Limits.Burst}
	out.Quota, out.QuotaPeriod = quotaFields(p.Limits)
	return out
}
