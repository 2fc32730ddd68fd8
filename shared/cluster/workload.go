package cluster

import (
	"context"
	"errors"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

// Workload is what runs an app, as it was when looked at: the Knative Service of
// the app's name where there is one, or else the Deployment.
type Workload struct {
	ref        app.Ref
	deployment *appsv1.Deployment
	knative    *unstructured.Unstructured
}

// Workload looks at what runs an app.
func (c *Cluster) Workload(ctx context.Context, ref app.Ref) (Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	knative, err := c.knativeServices(ref.Namespace).look(ctx, ref.Name)
	if err != nil {
		return Workload{}, err
	}
	deployment, err := c.deployments(ref.Namespace).look(ctx, ref.Name)
	return Workload{ref: ref, deployment: deployment, knative: knative}, err
}

// Workloads are those of every app, as they were when listed.
type Workloads struct {
	deployments map[app.Ref]*appsv1.Deployment
	knative     map[app.Ref]*unstructured.Unstructured
}

// Of gives one app's workload. One that lacks Sluice's label shows as absent;
// [Cluster.Workload] would tell.
func (v Workloads) Of(ref app.Ref) Workload {
	return Workload{ref: ref, deployment: v.deployments[ref], knative: v.knative[ref]}
}

// Workloads lists every app's workload: a handful of calls, however many apps.
func (c *Cluster) Workloads(ctx context.Context) (v Workloads, err error) {
	if v.deployments, err = allByRef(ctx, c.deployments(""), ""); err != nil {
		return Workloads{}, err
	}
	v.knative, err = allByRef(ctx, c.knativeServices(""), "")
	if apierrors.IsNotFound(err) { // a cluster without Knative has none
		err = nil
	}
	return v, err
}

// Absent tells whether nothing runs the app.
func (w Workload) Absent() bool { return w.knative == nil && w.deployment == nil }

// Runs tells whether the workload is told to run the app as it is recorded.
func (w Workload) Runs(a app.App) bool {
	if w.knative != nil {
		return knativeRight(w.knative, a)
	}
	return deploymentStatus(w.deployment, a) == Right
}

// Observation reports how far the workload is.
func (w Workload) Observation() deploy.Observation {
	switch {
	case w.knative != nil:
		return knativeObservation(w.knative)
	case w.deployment != nil:
		return deploymentObservation(w.deployment)
	}
	return deploy.Observation{}
}

// ApplyWorkload makes the workload that was looked at run the app as it is
// recorded; without one, a Deployment is made. Problems: conflict when the workload
// has changed since, unavailable. What the cluster refuses, [Refusal] explains.
func (c *Cluster) ApplyWorkload(ctx context.Context, w Workload, a app.App) error {
	if w.knative != nil {
		return c.updateKnative(ctx, w.knative, a)
	}
	if w.deployment == nil {
		if err := c.EnsureNamespace(ctx, a.Namespace); err != nil {
			return err
		}
	}
	return c.ApplyDeployment(ctx, Objects{Workload: w}, a)
}

// RemoveWorkload deletes what runs an app, if there is anything: for one that was
// started when the app had been deleted already. It leaves what was adopted. Problem:
// conflict when it has been replaced by another object of that name.
func (c *Cluster) RemoveWorkload(ctx context.Context, ref app.Ref) error {
	w, err := c.Workload(ctx, ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.removeWorkload(ctx, w)
}

func (c *Cluster) removeWorkload(ctx context.Context, w Workload) error {
	if err := withdraw(ctx, c.deployments(w.ref.Namespace), w.deployment); err != nil {
		return err
	}
	return c.releaseKnative(ctx, w)
}

// Refusal tells whether the API server has refused a write for what is in it or
// for a quota, so that it will likely refuse it again, and what it said about that. A
// right that this process lacks is no refusal: it may not have been granted yet.
//
// An object that the app may not adopt is a refusal too.
func Refusal(err error) (reason string, refused bool) {
	if problem.Is(err, problem.NameTaken) {
		return problem.From(err).Message, true
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || lacksRight(err) {
		return "", false
	}
	s := answer.Status()
	return s.Message, s.Code >= http.StatusBadRequest && s.Code < http.StatusInternalServerError
}
