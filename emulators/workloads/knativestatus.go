package workloads

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// rollKnative advances the rollouts, writes changed statuses and updates the gateways.
func (c *Controller) rollKnative(ctx context.Context, lister cache.GenericLister, services []*core.Service) (wakeAt time.Time, failed error) {
	all, err := listKnative(lister)
	if err != nil {
		return wakeAt, err
	}
	rollouts, existing := map[string]rollout{}, map[string]bool{}
	local, public := map[string]Pod{}, map[string]Pod{}
	for _, s := range all {
		existing[string(s.GetUID())] = true
		key := s.GetNamespace() + "/" + s.GetName()
		d, err := asDeployment(s)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		next, at := step(d, c.knative.rollouts[key], c.now(), readyAfter)
		rollouts[key], wakeAt = next, earlier(wakeAt, at)
		if pulled := next.since.Add(readyAfter); missing(podOf(d).Image) && pulled.After(c.now()) {
			wakeAt = earlier(wakeAt, pulled)
		}
		if next.serving != nil {
			local[localHost(s)], public[hostOf(s)] = *next.serving, *next.serving
		}
	}
	c.knative.rollouts = rollouts
	c.knative.local.hosts.Store(&local)
	c.knative.public.hosts.Store(&public)
	for _, s := range all { // the gateways serve what the statuses report
		r, known := rollouts[s.GetNamespace()+"/"+s.GetName()]
		if !known {
			continue
		}
		routed, err := true, error(nil)
		if r.serving != nil { // no Service without a ready revision
			routed, err = c.makePlaceholder(ctx, s, services)
		}
		failed = errors.Join(failed, err, c.reportKnative(ctx, s, r, routed))
	}
	return wakeAt, errors.Join(failed, c.collect(ctx, services, existing))
}

// asDeployment returns the fields shared with a Deployment.
func asDeployment(s *unstructured.Unstructured) (*apps.Deployment, error) {
	template, _, err := unstructured.NestedMap(s.Object, "spec", "template")
	if err != nil {
		return nil, fmt.Errorf("read Knative Service %s: %w", s.GetName(), err)
	}
	d := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: s.GetName(), Namespace: s.GetNamespace(), Generation: s.GetGeneration()}}
	// The conversion drops fields that a pod template lacks.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &d.Spec.Template); err != nil {
		return nil, fmt.Errorf("read Knative Service %s: %w", s.GetName(), err)
	}
	if within, err := time.ParseDuration(d.Spec.Template.Annotations[deadlineAnnotation]); err == nil {
		seconds := int32(min(within.Seconds(), math.MaxInt32))
		d.Spec.ProgressDeadlineSeconds = &seconds
	}
	if ready, _, _ := unstructured.NestedString(s.Object, "status", "latestReadyRevisionName"); ready == revisionName(s) {
		d.Status = apps.DeploymentStatus{ObservedGeneration: d.Generation, UpdatedReplicas: 1, AvailableReplicas: 1}
	}
	return d, nil
}

func revisionName(s *unstructured.Unstructured) string {
	return fmt.Sprintf("%s-%05d", s.GetName(), s.GetGeneration())
}

func (c *Controller) reportKnative(ctx context.Context, s *unstructured.Unstructured, r rollout, routed bool) error {
	d, err := asDeployment(s)
	if err != nil {
		return err
	}
	status := knativeStatus(s, d, r, routed, c.now())
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

// deadlineAnnotation limits the time for a revision to become ready, e.g. "2m".
const deadlineAnnotation = "serving.knative.dev/progress-deadline"

func knativeStatus(s *unstructured.Unstructured, d *apps.Deployment, r rollout, routed bool, now time.Time) map[string]any {
	before, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions")
	configured := configurationsReady(s, d, r, now)
	route := routesReady(s, configured, r, routed)
	conditions := []any{}
	for _, c := range []knativeCondition{configured, summary(configured, route), route} {
		conditions = append(conditions, c.fields(before, now))
	}
	status := map[string]any{
		"observedGeneration":        s.GetGeneration(),
		"conditions":                conditions,
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

type knativeCondition struct{ kind, status, reason, message string }

// configurationsReady is the condition of the latest created revision. A missing image fails
// after readyAfter, because Knative resolves the digest. An image that never becomes ready
// fails at the deadline.
func configurationsReady(s *unstructured.Unstructured, d *apps.Deployment, r rollout, now time.Time) knativeCondition {
	c, failure, image := knativeCondition{kind: "ConfigurationsReady", status: "Unknown"}, "", podOf(d).Image
	switch {
	case r.ready:
		c.status = "True"
	case missing(image) && !now.Before(r.since.Add(readyAfter)):
		failure = fmt.Sprintf("Unable to fetch image %q: failed to resolve image to digest: unexpected status code 404 Not Found", image)
	case !now.Before(r.since.Add(deadline(d))):
		failure = "Initial scale was never achieved"
	}
	if failure != "" {
		c.status, c.reason = "False", "RevisionFailed"
		c.message = fmt.Sprintf("Revision %q failed with message: %s.", revisionName(s), failure)
	}
	return c
}

func routesReady(s *unstructured.Unstructured, configured knativeCondition, r rollout, routed bool) knativeCondition {
	c := knativeCondition{kind: "RoutesReady", status: "True"}
	switch {
	case r.serving == nil && configured.status == "False":
		c.status, c.reason = "False", "RevisionMissing"
		c.message = fmt.Sprintf("Configuration %q does not have any ready Revision.", s.GetName())
	case r.serving == nil:
		c.status, c.reason = "Unknown", "RevisionMissing"
		c.message = fmt.Sprintf("Configuration %q is waiting for a Revision to become ready.", s.GetName())
	case !routed:
		c.status, c.reason = "False", "NotOwned"
		c.message = fmt.Sprintf("There is an existing placeholder Service %q that we do not own.", s.GetName())
	}
	return c
}

// summary returns Ready: the worse of the other two, or the route's if equal.
func summary(configured, route knativeCondition) knativeCondition {
	rank := map[string]int{"False": 0, "Unknown": 1, "True": 2}
	c := route
	if rank[configured.status] < rank[route.status] {
		c = configured
	}
	c.kind = "Ready"
	return c
}

// fields returns the condition's fields. The time changes only if the status does.
func (c knativeCondition) fields(before []any, now time.Time) map[string]any {
	fields := map[string]any{"type": c.kind, "status": c.status, "lastTransitionTime": now.UTC().Format(time.RFC3339)}
	if c.reason != "" {
		fields["reason"] = c.reason
	}
	if c.message != "" {
		fields["message"] = c.message
	}
	for _, one := range before {
		if b, ok := one.(map[string]any); ok && b["type"] == c.kind && b["status"] == c.status {
			fields["lastTransitionTime"] = b["lastTransitionTime"]
		}
	}
	return fields
}
