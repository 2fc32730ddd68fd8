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

// Workload is the object that runs an app, as it was read: a Knative Service, or else a Deployment.
type Workload struct {
	ref        app.Ref
	deployment *appsv1.Deployment
	knative    *unstructured.Unstructured
}

// Workload reads the object that runs an app.
func (c *Cluster) Workload(ctx context.Context, ref app.Ref) (Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	knative, err := c.knativeServices(ref.Namespace).find(ctx, ref.Name)
	if err != nil {
		return Workload{}, err
	}
	deployment, err := c.deployments(ref.Namespace).find(ctx, ref.Name)
	return Workload{ref: ref, deployment: deployment, knative: knative}, err
}

// Workloads holds the workloads of all apps.
type Workloads struct {
	deployments map[app.Ref]*appsv1.Deployment
	knative     map[app.Ref]*unstructured.Unstructured
}

// Of returns one app's workload. It ignores workloads without Sluice's label.
func (v Workloads) Of(ref app.Ref) Workload {
	return Workload{ref: ref, deployment: v.deployments[ref], knative: v.knative[ref]}
}

// Workloads lists the workloads of all apps.
func (c *Cluster) Workloads(ctx context.Context) (v Workloads, err error) {
	if v.deployments, err = allByRef(ctx, c.deployments(""), ""); err != nil {
		return Workloads{}, err
	}
	v.knative, err = allByRef(ctx, c.knativeServices(""), "")
	if apierrors.IsNotFound(err) { // the cluster does not have Knative
		err = nil
	}
	return v, err
}

// Absent reports whether the app has no workload.
func (w Workload) Absent() bool { return w.knative == nil && w.deployment == nil }

// Runs reports whether the workload's spec matches the app's document.
func (w Workload) Runs(a app.App) bool {
	if w.knative != nil {
		return knativeRight(w.knative, a)
	}
	return deploymentStatus(w.deployment, a) == Right
}

// Observation returns the state of the workload's rollout.
func (w Workload) Observation() deploy.Observation {
	switch {
	case w.knative != nil:
		return knativeObservation(w.knative)
	case w.deployment != nil:
		return deploymentObservation(w.deployment)
	}
	return deploy.Observation{}
}

// ApplyWorkload makes the workload run the app's image. If the app has no workload, it creates a
// Deployment. [Refusal] identifies a rejected write.
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

// RemoveWorkload deletes an app's workload. It does not delete an adopted workload.
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

// Refusal reports whether a write was rejected because of its content, a quota, or an object that
// the app may not adopt. A missing right does not count, because it may be granted later.
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
