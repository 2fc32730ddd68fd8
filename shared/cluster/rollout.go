package cluster

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// Rollout is how far an app's Deployment has brought what it shall run.
type Rollout struct {
	Revision int64 // of the app, that the Deployment shall run; 0 when it does not say
	Image    string
	Ready    bool   // every pod is of this revision and available
	Failed   bool   // Kubernetes has given up: the progress deadline has passed
	Message  string // why it is not ready; "" when it is
}

// Rollout reads an app's rollout. Problem: not_found.
func (c *Cluster) Rollout(ctx context.Context, ref app.Ref) (Rollout, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := c.deployments(ref.Namespace).get(ctx, ref.Name)
	if apierrors.IsNotFound(err) {
		return Rollout{}, fmt.Errorf("read rollout of %s: %w", ref, problem.Of(problem.NotFound))
	}
	if err != nil {
		return Rollout{}, fmt.Errorf("read rollout of %s: %w", ref, known(err))
	}
	return rolloutOf(d, ref), nil
}

// rolloutOf reads a Deployment's status by the rules of "kubectl rollout status".
func rolloutOf(d *appsv1.Deployment, ref app.Ref) Rollout {
	var r Rollout
	if c := appContainer(d, app.App{Name: ref.Name}); c != nil {
		r.Image = c.Image
	}
	if n, err := strconv.ParseInt(d.Spec.Template.Annotations[revisionAnnotation], 10, 64); err == nil {
		r.Revision = n
	}
	if d.Status.ObservedGeneration < d.Generation {
		r.Message = "Kubernetes has not taken up the change yet."
		return r
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			r.Failed, r.Message = true, c.Message
			return r
		}
	}
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	s := d.Status
	switch {
	case s.UpdatedReplicas < wanted:
		r.Message = fmt.Sprintf("%d of %d pods are new.", s.UpdatedReplicas, wanted)
	case s.Replicas > s.UpdatedReplicas:
		r.Message = fmt.Sprintf("%d old pods are still there.", s.Replicas-s.UpdatedReplicas)
	case s.AvailableReplicas < s.UpdatedReplicas:
		r.Message = fmt.Sprintf("%d of %d new pods are ready.", s.AvailableReplicas, s.UpdatedReplicas)
	default:
		r.Ready = true
	}
	return r
}
