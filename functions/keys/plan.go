package keys

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listPlans(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Plan], error) {
	plans, next, err := s.store.Plans(ctx, in.Environment.Namespace, store.Page(page))
	return wire.ListOf(plans, next, wirePlan), err
}

func (s *Service) createPlan(ctx context.Context, in httpapi.Scope, body wire.CreatePlan) (wire.Plan, checkers.Change, error) {
	name, limits, err := newPlan(body)
	if err != nil {
		return wire.Plan{}, checkers.Change{}, err
	}
	now := s.changeTime()
	p := plan.Plan{ID: plan.IDFor(name), Namespace: in.Environment.Namespace, Name: name, Limits: limits, CreatedAt: now, UpdatedAt: now}
	change, err := s.store.CreatePlan(ctx, p)
	in.SetETag(p)
	return wirePlan(p), change, err
}

func (s *Service) getPlan(ctx context.Context, in httpapi.Scope, _ api.None) (wire.Plan, error) {
	id, err := planID(in)
	if err != nil {
		return wire.Plan{}, err
	}
	p, err := s.store.Plan(ctx, in.Environment.Namespace, id)
	in.SetETag(p)
	return wirePlan(p), err
}

func (s *Service) updatePlan(ctx context.Context, in httpapi.Scope, body wire.UpdatePlan) (wire.Plan, checkers.Change, error) {
	id, err := planID(in)
	if err != nil {
		return wire.Plan{}, checkers.Change{}, err
	}
	now := s.changeTime()
	p, change, err := s.store.UpdatePlan(ctx, in.Environment.Namespace, id, func(p plan.Plan) (plan.Plan, error) {
		if err := in.Match.Check(p); err != nil {
			return plan.Plan{}, err
		}
		return changePlan(p, body, now)
	})
	in.SetETag(p)
	return wirePlan(p), change, err
}

func (s *Service) deletePlan(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	id, err := planID(in)
	if err != nil {
		return api.None{}, err
	}
	return api.None{}, s.store.DeletePlan(ctx, in.Environment.Namespace, id, func(p plan.Plan) error { return in.Match.Check(p) })
}

func planID(in httpapi.Scope) (plan.ID, error) {
	id := in.Param("plan_id")
	if !plan.ValidID(id) {
		return "", problem.New(problem.NotFound, "The plan does not exist.")
	}
	return plan.ID(id), nil
}

func newPlan(in wire.CreatePlan) (name string, l plan.Limits, err error) {
	name = httpapi.Deref(in.Name)
	l = plan.Limits{Rate: httpapi.Deref(in.Rate), Burst: httpapi.Deref(in.Burst)}
	l, err = withQuota(l, quota{in.Quota, in.QuotaPeriod, in.QuotaMode})
	return name, l, problem.Join(
		httpapi.Required("name", in.Name), httpapi.Required("rate", in.Rate), httpapi.Required("burst", in.Burst),
		plan.CheckName(name), err,
	)
}

func changePlan(p plan.Plan, in wire.UpdatePlan, now time.Time) (plan.Plan, error) {
	if in == (wire.UpdatePlan{}) {
		return p, nil
	}
	missing := problem.Join(
		set("name", in.Name, &p.Name),
		set("rate", in.Rate, &p.Rate),
		set("burst", in.Burst, &p.Burst),
	)
	var err error
	p.Limits, err = withQuota(p.Limits, changeQuota(p.Limits, in))
	p.UpdatedAt = now
	return p, problem.Join(missing, plan.CheckName(p.Name), err)
}

type quota struct {
	requests *int64  // nil without a quota
	period   *string // nil without a quota
	mode     *string // nil without a quota, or for soft
}

// changeQuota returns the quota after the change. A null quota or period removes the quota. If the
// other one has a value, withQuota rejects the combination.
func changeQuota(l plan.Limits, in wire.UpdatePlan) quota {
	var q quota
	removed := in.Quota.Set && in.Quota.Value == nil || in.QuotaPeriod.Set && in.QuotaPeriod.Value == nil
	if !removed {
		q = quotaOf(l)
	}
	if in.Quota.Set {
		q.requests = in.Quota.Value
	}
	if in.QuotaPeriod.Set {
		q.period = in.QuotaPeriod.Value
	}
	if in.QuotaMode.Set {
		q.mode = in.QuotaMode.Value
	}
	return q
}

// withQuota returns l with the quota q, and validates all limits. A quota of 0 or a period of "" in
// a request is invalid; in [plan.Limits] they mean no quota.
func withQuota(l plan.Limits, q quota) (plan.Limits, error) {
	l.Quota, l.Period, l.Hard = 0, "", false
	if q.requests != nil && *q.requests == 0 || q.period != nil && *q.period == "" {
		return l, problem.Join(problem.FromCode(problem.InvalidQuota), l.Check())
	}
	if q.requests != nil {
		l.Quota = *q.requests
	}
	if q.period != nil {
		l.Period = plan.Period(*q.period)
	}
	var wrong error
	if q.mode != nil {
		mode := plan.Mode(*q.mode)
		wrong = plan.CheckMode(mode, l.Quota)
		l.Hard = mode == plan.Hard
	}
	return l, problem.Join(wrong, l.Check())
}

func quotaOf(l plan.Limits) quota {
	if l.Quota == 0 {
		return quota{}
	}
	period, mode := string(l.Period), string(l.Mode())
	return quota{&l.Quota, &period, &mode}
}

func wirePlan(p plan.Plan) wire.Plan {
	q := quotaOf(p.Limits)
	return wire.Plan{
		ID: string(p.ID), Name: p.Name, Rate: p.Rate, Burst: p.Burst,
		Quota: q.requests, QuotaPeriod: q.period, QuotaMode: q.mode,
	}
}
