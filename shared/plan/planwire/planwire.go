// Package planwire converts usage plans between the JSON types of the API and package plan.
package planwire

import (
	"time"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// New returns the name and limits of a new plan. It returns missing_field, and the problems of
// [Change].
func New(in wire.CreatePlan) (name string, l plan.Limits, err error) {
	name = httpapi.Deref(in.Name)
	l = plan.Limits{Rate: httpapi.Deref(in.Rate), Burst: httpapi.Deref(in.Burst)}
	l, err = withQuota(l, quota{in.Quota, in.QuotaPeriod, in.QuotaMode})
	return name, l, problem.Join(
		httpapi.Required("name", in.Name), httpapi.Required("rate", in.Rate), httpapi.Required("burst", in.Burst),
		plan.CheckName(name), err,
	)
}

// Change returns the plan after a change. It returns invalid_name, invalid_rate, invalid_burst or
// invalid_quota, or missing_field for a null field that the plan needs.
func Change(p plan.Plan, in wire.UpdatePlan, now time.Time) (plan.Plan, error) {
	if in == (wire.UpdatePlan{}) {
		return p, nil
	}
	missing := problem.Join(
		httpapi.Set("name", in.Name, &p.Name),
		httpapi.Set("rate", in.Rate, &p.Rate),
		httpapi.Set("burst", in.Burst, &p.Burst),
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

// Wire returns the JSON form of a plan.
func Wire(p plan.Plan) wire.Plan {
	q := quotaOf(p.Limits)
	return wire.Plan{
		ID: string(p.ID), Name: p.Name, Rate: p.Rate, Burst: p.Burst,
		Quota: q.requests, QuotaPeriod: q.period, QuotaMode: q.mode,
	}
}
