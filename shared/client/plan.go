package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// Plans lists an environment's usage plans.
func (c *Client) Plans(ctx context.Context, project, environment string) iter.Seq2[wire.Plan, error] {
	return all[wire.Plan](ctx, c, nil, in(project, environment, "plans")...)
}

// PlansPage reads one page of them.
func (c *Client) PlansPage(ctx context.Context, project, environment string, p Page) (wire.List[wire.Plan], error) {
	return page[wire.Plan](ctx, c, p, nil, in(project, environment, "plans")...)
}

// CreatePlan makes a usage plan. Codes: invalid_name, invalid_rate, invalid_burst,
// invalid_quota, already_exists.
func (c *Client) CreatePlan(ctx context.Context, project, environment string, plan wire.CreatePlan) (wire.Plan, error) {
	return call[wire.Plan](ctx, c, request{
		method: http.MethodPost, path: in(project, environment, "plans"), body: plan,
	})
}

// Plan reads a usage plan, e.g. "plan-gold".
func (c *Client) Plan(ctx context.Context, project, environment, planID string) (wire.Plan, error) {
	return call[wire.Plan](ctx, c, request{method: http.MethodGet, path: in(project, environment, "plans", planID)})
}

// UpdatePlan changes the given fields of a usage plan.
func (c *Client) UpdatePlan(ctx context.Context, project, environment, planID string, change wire.UpdatePlan) (wire.Plan, error) {
	return call[wire.Plan](ctx, c, request{
		method: http.MethodPatch, path: in(project, environment, "plans", planID), body: change,
	})
}

// DeletePlan deletes a usage plan that no key uses. Code: plan_in_use.
func (c *Client) DeletePlan(ctx context.Context, project, environment, planID string) error {
	return c.delete(ctx, in(project, environment, "plans", planID)...)
}
