package cluster

import (
	"context"
	"fmt"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// Apply makes everything that runs an app and lets requests in: its namespace,
// Service, Deployment (once it has an image) and route; a Knative Service of its name
// stands for the first two. An app whose gate is asked for gets no route here, nor does
// one that Knative runs: only wiring makes those, with their Middlewares. Problem: conflict when something has changed
// since o was looked at.
func (c *Cluster) Apply(ctx context.Context, o Objects, a app.App) error {
	if err := c.EnsureNamespace(ctx, a.Namespace); err != nil {
		return err
	}
	if o.knative == nil {
		if err := c.ApplyService(ctx, o, a); err != nil {
			return err
		}
	}
	if a.Image != "" {
		w := Workload{ref: a.Ref(), deployment: o.deployment, knative: o.knative}
		if err := c.ApplyWorkload(ctx, w, a); err != nil {
			return err
		}
	}
	if o.onKnative() || a.RequireAPIKey || a.Gate.State != app.Ungated {
		return nil
	}
	return c.ApplyRoute(ctx, o, a, false)
}

// attempts is how often [Cluster.Delete] looks again when objects change under
// its hands.
const attempts = 4

// Delete deletes whatever an app has in the cluster, as [Cluster.Remove] does,
// and looks again until there is nothing left.
func (c *Cluster) Delete(ctx context.Context, ref app.Ref) error {
	for range attempts {
		o, err := c.Objects(ctx, ref)
		if err != nil || o.None() {
			return err
		}
		if err := c.Remove(ctx, o, ref); err != nil && !problem.Is(err, problem.Conflict) {
			return err
		}
	}
	o, err := c.Objects(ctx, ref)
	if err == nil && !o.None() {
		return fmt.Errorf("delete %s: %w", ref, problem.Of(problem.Conflict))
	}
	return err
}
