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

// Knative Services are adopted, never created. Deployments change only the image, the revision
// annotation and automountServiceAccountToken (see podSpec). Server-side apply treats the list of
// containers as one field, so the Service is read, changed and written back.

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

// knativePod returns the known fields of a Knative Service's pod spec and the index of the app's
// container.
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

// knativeObservation reads a Knative Service's status. It is ready if its newest revision is
// ready and receives the requests.
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

// knativeFailure returns why a Knative Service is not ready. If its first revision fails, only
// the condition ConfigurationsReady has the cause.
func knativeFailure(s *unstructured.Unstructured, ready map[string]any) string {
	if configured := knativeCondition(s, "ConfigurationsReady"); configured["status"] == string(metav1.ConditionFalse) {
		ready = configured
	}
	message, _ := ready["message"].(string)
	return message
}

// Knative creates a Service of the same name, the placeholder, for each Knative Service. It leads
// to Knative's gateway inside the cluster, which selects the Knative Service by its host. It has
// the labels of the Knative Service, so only its controller identifies it. The app's route uses
// it, and sets that host with a Middleware. Traefik needs allowExternalNameServices for it.
//
// An app's Deployment and Service are deleted when its Knative Service is ready: only then can
// Knative create the placeholder. The app does not respond for about a second.

const (
	knativeDefaultPort = 80
	clusterDomain      = "svc.cluster.local"
)

// onKnative reports whether requests are routed to a Knative Service.
func (o Objects) onKnative() bool { return o.knative != nil && !isOwn(o.service) }

// superseded reports whether Sluice's own Service and Deployment must make room for a Knative
// Service.
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
