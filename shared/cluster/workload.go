package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
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
	w := Workload{ref: ref}
	knative, err := c.dynamic.Resource(knativeServices()).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err := keep(&w.knative, knative, err); err != nil {
		return Workload{}, fmt.Errorf("look at knative service %s: %w", ref, err)
	}
	deployment, err := c.deployments(ref.Namespace).get(ctx, ref.Name)
	if err := keep(&w.deployment, deployment, err); err != nil {
		return Workload{}, fmt.Errorf("look at deployment %s: %w", ref, err)
	}
	return w, nil
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
func (c *Cluster) Workloads(ctx context.Context) (Workloads, error) {
	var v Workloads
	var err error
	if v.deployments, err = allTyped(ctx, c.deployments(""), "deployments"); err != nil {
		return Workloads{}, err
	}
	v.knative, err = c.allKnative(ctx)
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
		return deploymentObservation(w.deployment, w.ref)
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
	return c.ApplyDeployment(ctx, Objects{deployment: w.deployment}, a)
}

// Refusal tells whether the API server has refused a write for what is in it or
// for a quota, so that it will likely refuse it again, and what it said about that. A
// right that this process lacks is no refusal: it may not have been granted yet.
func Refusal(err error) (reason string, refused bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || lacksRight(err) {
		return "", false
	}
	s := answer.Status()
	return s.Message, s.Code >= http.StatusBadRequest && s.Code < http.StatusInternalServerError
}

// deploymentObservation reads a Deployment's status.
func deploymentObservation(d *appsv1.Deployment, ref app.Ref) deploy.Observation {
	r := rolloutOf(d, ref)
	o := deploy.Observation{Revision: r.Revision, Ready: r.Ready, Message: r.Message}
	if d.Status.ObservedGeneration < d.Generation {
		return o // the conditions are about what was before
	}
	for _, cond := range d.Status.Conditions {
		switch {
		case cond.Type == appsv1.DeploymentProgressing && cond.Status == corev1.ConditionTrue:
			o.ProgressAt = cond.LastUpdateTime.UTC()
		case cond.Type == appsv1.DeploymentReplicaFailure && cond.Status == corev1.ConditionTrue && !o.Ready:
			o.Message = cond.Message
		}
	}
	return o
}

// instant reads a time of an unstructured object; zero when there is none.
func instant(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
