package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
)

// For each of its services Knative makes a Kubernetes Service of the same name, the
// placeholder, which leads to its gateway inside the cluster; the gateway finds the
// service by its host in the cluster's domain. The placeholder carries the labels of the
// Knative Service, Sluice's among them: what tells it from a Service of Sluice's is who
// controls it, the Route of the Knative Service. So the route of an app that Knative runs
// leads to that Service too, through one more Middleware, which sets that host after the
// gate has let a request in. Traefik follows such Services only where it is told to
// (allowExternalNameServices).
//
// An app that had a Deployment before keeps it, and the Service that Sluice has made,
// until the first revision of its Knative Service is ready. Then both are removed: only
// so can Knative make a Service of that name. For a second or so nothing answers.

const (
	knativeDefaultPort = 80
	clusterDomain      = "svc.cluster.local"
)

// onKnative tells whether requests are led to a Knative Service: there is one, and no
// Service of Sluice's own is in its way.
func (o Objects) onKnative() bool { return o.knative != nil && !isOwn(o.service) }

// superseded tells whether what Sluice has made is to make room for a Knative Service.
func (o Objects) superseded() bool {
	switch {
	case isOwn(o.service):
		return knativeCondition(o.knative, "ConfigurationsReady") == string(metav1.ConditionTrue)
	case o.deployment != nil:
		return hasAll(o.deployment.Labels, managed())
	}
	return false
}

// isOwn tells a Service that Sluice has made or adopted from somebody else's.
func isOwn(s *corev1.Service) bool { return s != nil && hasAll(s.Labels, managed()) }

// tellPlaceholder sorts the Service of the app's name: Knative's is not the app's.
func (o *Objects) tellPlaceholder() {
	if byKnative(o.service) {
		o.placeholder, o.service = o.service, nil
	}
}

// byKnative tells whether a Service is controlled by Knative.
func byKnative(s *corev1.Service) bool {
	if s == nil {
		return false
	}
	owner := metav1.GetControllerOf(s)
	return owner != nil && strings.HasPrefix(owner.APIVersion, knativeServices().Group+"/")
}

// RemoveSuperseded deletes the Service and the Deployment of an app that Knative runs now.
// Problem: conflict when they have changed since.
func (c *Cluster) RemoveSuperseded(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if isOwn(o.service) {
		if err := gone(c.services(ref.Namespace).delete(ctx, ref.Name, only(o.service))); err != nil {
			return fmt.Errorf("make room for knative service %s: %w", ref, err)
		}
	}
	if o.deployment != nil && hasAll(o.deployment.Labels, managed()) {
		return c.removeWorkload(ctx, Workload{ref: ref, deployment: o.deployment})
	}
	return nil
}

// knativePort is the port of the placeholder.
func knativePort(o Objects) int64 {
	if o.placeholder != nil && len(o.placeholder.Spec.Ports) > 0 {
		return int64(o.placeholder.Spec.Ports[0].Port)
	}
	return knativeDefaultPort
}

// WriteHost makes the Middleware that leads an app's requests to its Knative Service,
// or puts it back as a whole.
func (c *Cluster) WriteHost(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.writeMiddleware(ctx, o.host, hostPart(ref), ref)
}

func hostPart(ref app.Ref) part {
	host := ref.Name + "." + ref.Namespace + "." + clusterDomain
	return part{hostName(ref), map[string]any{"headers": map[string]any{"customRequestHeaders": map[string]any{"Host": host}}}}
}

// knativeCondition is the status of a Knative Service's condition, "" without one.
func knativeCondition(s *unstructured.Unstructured, kind string) string {
	conditions, _, err := unstructured.NestedSlice(s.Object, "status", "conditions")
	if err != nil {
		return ""
	}
	for _, one := range conditions {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}
