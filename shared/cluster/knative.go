package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
)

// Knative Services are adopted, never created. A deployment changes only their image, their revision
// annotation and automountServiceAccountToken (see podSpec). Server-side apply treats the list of
// containers as one field, so the Knative Service is read, changed and written back.

const knativeGroup = "serving.knative.dev"

func (c *Cluster) updateKnative(ctx context.Context, existing *unstructured.Unstructured, a app.App) error {
	if a.Image == "" {
		return fmt.Errorf("update knative service %s: %w", a.Ref(), errors.New("app has no image"))
	}
	if foreign(existing) {
		return nameTaken("Knative Service", a.Ref())
	}
	desired, err := knativeRunning(existing, a)
	if err != nil {
		return fmt.Errorf("update knative service %s: %w", a.Ref(), err)
	}
	_, err = c.knativeServices(a.Namespace).write(ctx, desired)
	return err
}

func knativeRunning(existing *unstructured.Unstructured, a app.App) (*unstructured.Unstructured, error) {
	desired := existing.DeepCopy()
	pod, i, err := knativePod(desired, a.Name)
	if err != nil {
		return nil, err
	}
	spec, _, _ := unstructured.NestedMap(desired.Object, "spec", "template", "spec")
	containers, _, _ := unstructured.NestedSlice(spec, "containers")
	container, ok := containers[i].(map[string]any)
	if !ok {
		return nil, errors.New("a container is not an object")
	}
	container["image"], spec["containers"] = a.Image, containers
	if tokenless(pod) {
		spec["automountServiceAccountToken"] = false
	}
	if err := unstructured.SetNestedMap(desired.Object, spec, "spec", "template", "spec"); err != nil {
		return nil, err
	}
	err = unstructured.SetNestedField(desired.Object, strconv.FormatInt(a.Revision, 10),
		"spec", "template", "metadata", "annotations", revisionAnnotation)
	if err != nil {
		return nil, err
	}
	// A fixed name would be valid for one revision only.
	unstructured.RemoveNestedField(desired.Object, "spec", "template", "metadata", "name")
	all := desired.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels(a.Name))
	desired.SetLabels(all)
	notes := desired.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[adoptedAnnotation] = "true"
	desired.SetAnnotations(notes)
	return desired, nil
}

func knativePod(s *unstructured.Unstructured, name string) (pod corev1.PodSpec, i int, err error) {
	spec, _, err := unstructured.NestedMap(s.Object, "spec", "template", "spec")
	if err != nil {
		return pod, 0, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod); err != nil {
		return pod, 0, err
	}
	if i = appContainer(pod, name); i < 0 {
		err = errors.New("no container")
	}
	return pod, i, err
}

func knativeRight(s *unstructured.Unstructured, a app.App) bool {
	if a.Image == "" {
		return true
	}
	pod, i, err := knativePod(s, a.Name)
	return err == nil && pod.Containers[i].Image == a.Image && knativeRevision(s) == a.Revision && hasAll(s.GetLabels(), labels(a.Name))
}

func knativeRevision(s *unstructured.Unstructured) int64 {
	text, _, _ := unstructured.NestedString(s.Object, "spec", "template", "metadata", "annotations", revisionAnnotation)
	return revisionIn(text)
}

func knativeCondition(s *unstructured.Unstructured, kind string) map[string]any {
	for _, c := range objectsIn(s.Object, "status", "conditions") {
		if c["type"] == kind {
			return c
		}
	}
	return nil
}

func knativeIs(s *unstructured.Unstructured, kind string) bool {
	return knativeCondition(s, kind)["status"] == string(metav1.ConditionTrue)
}

// knativeObservation reads a Knative Service's status. The app is ready if the newest Knative
// revision is ready and receives the requests.
func knativeObservation(s *unstructured.Unstructured) deploy.Observation {
	o := deploy.Observation{Revision: knativeRevision(s)}
	observed, _, _ := unstructured.NestedInt64(s.Object, "status", "observedGeneration")
	if observed < s.GetGeneration() {
		o.Message = "Knative has not processed the change yet."
		return o
	}
	created, _, _ := unstructured.NestedString(s.Object, "status", "latestCreatedRevisionName")
	ready, _, _ := unstructured.NestedString(s.Object, "status", "latestReadyRevisionName")
	newest := created != "" && created == ready
	o.Ready = newest && knativeIs(s, "Ready")
	o.PodReady = newest && (o.Ready || knativeIs(s, "ConfigurationsReady")) // neither is true before Knative has created the new revision
	condition := knativeCondition(s, "Ready")
	if !o.Ready {
		o.Message = knativeFailure(s, condition)
	}
	if text, ok := condition["lastTransitionTime"].(string); ok {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			o.ProgressAt = at.UTC()
		}
	}
	return o
}

// knativeFailure returns the reason why a Knative Service is not ready. If its first revision fails,
// only the condition ConfigurationsReady contains the cause.
func knativeFailure(s *unstructured.Unstructured, ready map[string]any) string {
	if configured := knativeCondition(s, "ConfigurationsReady"); configured["status"] == string(metav1.ConditionFalse) {
		ready = configured
	}
	message, _ := ready["message"].(string)
	return message
}

// For each Knative Service, Knative creates a Service with the same name, the placeholder. It points
// to Knative's internal gateway, which selects the Knative Service by the Host header. The app's
// route uses the placeholder, and a Middleware sets that header. Traefik needs
// allowExternalNameServices for it. The placeholder has the labels of the Knative Service, so only
// its owner reference identifies it.
//
// Knative can create the placeholder only after the app's own Service is deleted. That Service and
// the app's Deployment are deleted when the Knative Service is ready. The app then does not respond
// for about a second.

const (
	knativeDefaultPort = 80
	clusterDomain      = "svc.cluster.local"
)

// onKnative reports whether requests are routed to a Knative Service.
func (o Objects) onKnative() bool { return o.knative != nil && !isOwn(o.service) }

// superseded reports whether Sluice's own Service or Deployment must be deleted because a Knative
// Service runs the app.
func (o Objects) superseded() bool {
	switch {
	case isOwn(o.service):
		return !adopted(o.service) && knativeIs(o.knative, "ConfigurationsReady")
	case o.deployment != nil:
		return hasAll(o.deployment.Labels, managed())
	}
	return false
}

func isOwn(s *corev1.Service) bool { return ours(s) }

func (o *Objects) separatePlaceholder() {
	if byKnative(o.service) {
		o.placeholder, o.service = o.service, nil
	}
}

func byKnative(s *corev1.Service) bool {
	if s == nil {
		return false
	}
	owner := metav1.GetControllerOf(s)
	return owner != nil && strings.HasPrefix(owner.APIVersion, knativeGroup+"/")
}

// RemoveSuperseded deletes the Service and the Deployment of an app that Knative now runs.
func (c *Cluster) RemoveSuperseded(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if isOwn(o.service) {
		if err := deleteSeen(ctx, c.services(ref.Namespace), o.service, only); err != nil {
			return err
		}
	}
	if o.deployment != nil && hasAll(o.deployment.Labels, managed()) {
		return c.removeWorkload(ctx, Workload{ref: ref, deployment: o.deployment})
	}
	return nil
}

func knativePort(o Objects) int64 {
	if o.placeholder != nil && len(o.placeholder.Spec.Ports) > 0 {
		return int64(o.placeholder.Spec.Ports[0].Port)
	}
	return knativeDefaultPort
}

// WriteHost writes the Middleware that routes an app's requests to its Knative Service.
func (c *Cluster) WriteHost(ctx context.Context, o Objects, ref app.Ref) error {
	return c.writePart(ctx, o.host, hostPart(ref), ref)
}

func hostPart(ref app.Ref) part {
	host := ref.Name + "." + ref.Namespace + "." + clusterDomain
	return part{kind: middlewareKind(), name: hostName(ref), spec: map[string]any{"headers": map[string]any{"customRequestHeaders": map[string]any{"Host": host}}}}
}
