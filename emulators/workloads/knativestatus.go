package workloads

import (
	"context"
	"errors"
	"fmt"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/sluicegate/sluice/emulators/internal/program"
)

// rollKnative moves every Knative Service on, writes the statuses that changed and
// tells the gateways what serves.
func (c *Controller) rollKnative(ctx context.Context, lister cache.GenericLister, services []*core.Service) (again time.Time, failed error) {
	all, err := listKnative(lister)
	if err != nil {
		return again, err
	}
	rollouts, there := map[string]rollout{}, map[string]bool{}
	local, public := map[string]Pod{}, map[string]Pod{}
	for _, s := range all {
		there[string(s.GetUID())] = true
		key := s.GetNamespace() + "/" + s.GetName()
		d, err := asDeployment(s)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		next, at := step(d, c.knative.rollouts[key], c.now(), readyAfter)
		rollouts[key], again = next, earlier(again, at)
		if next.serving != nil {
			local[localHost(s)], public[hostOf(s)] = *next.serving, *next.serving
		}
	}
	c.knative.rollouts = rollouts
	c.knative.local.hosts.Store(&local)
	c.knative.public.hosts.Store(&public)
	for _, s := range all { // what a status says holds already
		r, known := rollouts[s.GetNamespace()+"/"+s.GetName()]
		if !known {
			continue
		}
		routed, err := c.makePlaceholder(ctx, s, services)
		failed = errors.Join(failed, err, c.reportKnative(ctx, s, r, routed))
	}
	return again, errors.Join(failed, c.collect(ctx, services, there))
}

// asDeployment gives what a Knative Service has in common with a Deployment.
func asDeployment(s *unstructured.Unstructured) (*apps.Deployment, error) {
	template, _, err := unstructured.NestedMap(s.Object, "spec", "template")
	if err != nil {
		return nil, fmt.Errorf("read Knative Service %s: %w", s.GetName(), err)
	}
	d := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: s.GetName(), Namespace: s.GetNamespace(), Generation: s.GetGeneration()}}
	// The fields of Knative's own that a pod's template does not have are left out.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &d.Spec.Template); err != nil {
		return nil, fmt.Errorf("read Knative Service %s: %w", s.GetName(), err)
	}
	if ready, _, _ := unstructured.NestedString(s.Object, "status", "latestReadyRevisionName"); ready == revisionName(s) {
		d.Status = apps.DeploymentStatus{ObservedGeneration: d.Generation, UpdatedReplicas: 1, AvailableReplicas: 1}
	}
	return d, nil
}

// revisionName is the name that Knative gives to what a generation makes.
func revisionName(s *unstructured.Unstructured) string {
	return fmt.Sprintf("%s-%05d", s.GetName(), s.GetGeneration())
}

// reportKnative writes a status where it differs from the one that was read.
func (c *Controller) reportKnative(ctx context.Context, s *unstructured.Unstructured, r rollout, routed bool) error {
	status := knativeStatus(s, r, routed, c.now())
	is, _, err := unstructured.NestedMap(s.Object, "status")
	if err != nil {
		return fmt.Errorf("read the status of Knative Service %s: %w", s.GetName(), err)
	}
	if equality.Semantic.DeepEqual(is, status) {
		return nil
	}
	services := c.dynamic.Resource(knativeKind()).Namespace(s.GetNamespace())
	if _, err := program.WriteStatus(ctx, services, s.GetName(), status); !kerrors.IsNotFound(err) {
		return err
	}
	return nil
}

// knativeStatus tells a rollout the way Knative does.
func knativeStatus(s *unstructured.Unstructured, r rollout, routed bool, now time.Time) map[string]any {
	before, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions")
	configured, route := "Unknown", "True"
	why := "Configuration is waiting for a Revision to become ready."
	if r.ready {
		configured, why = "True", ""
	}
	if !routed {
		route, why = "False", fmt.Sprintf("service %q is not owned by the route", s.GetName())
	}
	ready := configured
	if route != "True" {
		ready = route
	}
	status := map[string]any{
		"observedGeneration": s.GetGeneration(),
		"conditions": []any{
			knativeCondition("ConfigurationsReady", configured, "", before, now),
			knativeCondition("Ready", ready, why, before, now),
			knativeCondition("RoutesReady", route, "", before, now),
		},
		"latestCreatedRevisionName": revisionName(s),
		"address":                   map[string]any{"url": "http://" + localHost(s)},
		"url":                       "http://" + hostOf(s),
	}
	name, _, _ := unstructured.NestedString(s.Object, "status", "latestReadyRevisionName")
	if r.ready {
		name = revisionName(s)
	}
	if name != "" {
		status["latestReadyRevisionName"] = name
	}
	return status
}

// knativeCondition gives a condition the time that it had while its status stays.
func knativeCondition(kind, status, message string, before []any, now time.Time) map[string]any {
	c := map[string]any{"type": kind, "status": status, "lastTransitionTime": now.UTC().Format(time.RFC3339)}
	if message != "" {
		c["message"] = message
	}
	for _, one := range before {
		if b, ok := one.(map[string]any); ok && b["type"] == kind && b["status"] == status {
			c["lastTransitionTime"] = b["lastTransitionTime"]
		}
	}
	return c
}
