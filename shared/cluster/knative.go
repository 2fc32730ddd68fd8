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

// An app's Knative Service is adopted, never made: whoever wants an app to scale to
// zero makes one of the app's name, before the app or later, and an administrator of the
// cluster allows its adoption (see adoptAnnotation). From then on deployments
// change the image of its container and the revision annotation of its template, take
// the service account's token away where nobody asked for one (see podSpec), and nothing
// else. Its list of containers is one field to server-side apply, so it is read,
// changed and written back, bound to the version that was read. Knative itself keeps the
// last ready revision serving while the next one starts. How requests get there is told
// below.

const knativeGroup = "serving.knative.dev"

// updateKnative writes the app's image and revision into its Knative Service.
func (c *Cluster) updateKnative(ctx context.Context, there *unstructured.Unstructured, a app.App) error {
	if a.Image == "" {
		return fmt.Errorf("update knative service %s: %w", a.Ref(), errors.New("there is no image yet"))
	}
	if foreign(there) {
		return taken("Knative Service", a.Ref())
	}
	shall, err := knativeRunning(there, a)
	if err != nil {
		return fmt.Errorf("update knative service %s: %w", a.Ref(), err)
	}
	_, err = c.knativeServices(a.Namespace).write(ctx, shall)
	return err
}

// knativeRunning is what a Knative Service shall be to run the app.
func knativeRunning(there *unstructured.Unstructured, a app.App) (*unstructured.Unstructured, error) {
	shall := there.DeepCopy()
	pod, i, err := knativePod(shall, a.Name)
	if err != nil {
		return nil, err
	}
	spec, _, _ := unstructured.NestedMap(shall.Object, "spec", "template", "spec") // knativePod has looked, here and below
	containers, _, _ := unstructured.NestedSlice(spec, "containers")
	container, ok := containers[i].(map[string]any)
	if !ok {
		return nil, errors.New("a container is no object")
	}
	container["image"], spec["containers"] = a.Image, containers
	if tokenless(pod) {
		spec["automountServiceAccountToken"] = false
	}
	if err := unstructured.SetNestedMap(shall.Object, spec, "spec", "template", "spec"); err != nil {
		return nil, err
	}
	err = unstructured.SetNestedField(shall.Object, strconv.FormatInt(a.Revision, 10),
		"spec", "template", "metadata", "annotations", revisionAnnotation)
	if err != nil {
		return nil, err
	}
	// A name given by hand is good for one revision only; Knative makes one up.
	unstructured.RemoveNestedField(shall.Object, "spec", "template", "metadata", "name")
	all := shall.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels(a.Name))
	shall.SetLabels(all)
	notes := shall.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[adoptedAnnotation] = "true"
	shall.SetAnnotations(notes)
	return shall, nil
}

// knativePod reads what the pods of a Knative Service are, and which of their containers
// is the app. What Knative alone knows of is left out.
func knativePod(s *unstructured.Unstructured, name string) (pod corev1.PodSpec, i int, err error) {
	spec, _, err := unstructured.NestedMap(s.Object, "spec", "template", "spec")
	if err != nil {
		return pod, 0, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod); err != nil {
		return pod, 0, err
	}
	if i = appContainer(pod, name); i < 0 {
		err = errors.New("there is no container")
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

// knativeRevision is the app's revision that a Knative Service shall run; 0 when it
// does not say.
func knativeRevision(s *unstructured.Unstructured) int64 {
	text, _, _ := unstructured.NestedString(s.Object, "spec", "template", "metadata", "annotations", revisionAnnotation)
	return revisionIn(text)
}

// knativeCondition is a condition of a Knative Service; one that is absent has no fields.
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

// knativeObservation reads a Knative Service's status: it is ready when its latest
// revision is, and its route leads there.
func knativeObservation(s *unstructured.Unstructured) deploy.Observation {
	o := deploy.Observation{Revision: knativeRevision(s)}
	observed, _, _ := unstructured.NestedInt64(s.Object, "status", "observedGeneration")
	if observed < s.GetGeneration() {
		o.Message = "Knative has not taken up the change yet."
		return o
	}
	created, _, _ := unstructured.NestedString(s.Object, "status", "latestCreatedRevisionName")
	ready, _, _ := unstructured.NestedString(s.Object, "status", "latestReadyRevisionName")
	newest := created != "" && created == ready
	o.Ready = newest && knativeIs(s, "Ready")
	o.PodReady = newest && (o.Ready || knativeIs(s, "ConfigurationsReady")) // neither holds before Knative has made the new revision
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

// knativeFailure is what keeps a Knative Service from being ready. Of one whose first
// revision fails the summary says only that there is none; the Configurations' condition
// has what is wrong with it, for example that its image cannot be fetched.
func knativeFailure(s *unstructured.Unstructured, ready map[string]any) string {
	if configured := knativeCondition(s, "ConfigurationsReady"); configured["status"] == string(metav1.ConditionFalse) {
		ready = configured
	}
	message, _ := ready["message"].(string)
	return message
}

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
		return !adopted(o.service) && knativeIs(o.knative, "ConfigurationsReady")
	case o.deployment != nil:
		return hasAll(o.deployment.Labels, managed())
	}
	return false
}

// isOwn tells a Service that Sluice has made or adopted from somebody else's.
func isOwn(s *corev1.Service) bool { return ours(s) }

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
	return owner != nil && strings.HasPrefix(owner.APIVersion, knativeGroup+"/")
}

// RemoveSuperseded deletes the Service and the Deployment of an app that Knative runs now.
// Problem: conflict when they have changed since.
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
	return c.writePart(ctx, o.host, hostPart(ref), ref)
}

func hostPart(ref app.Ref) part {
	host := ref.Name + "." + ref.Namespace + "." + clusterDomain
	return part{kind: middlewareKind(), name: hostName(ref), spec: map[string]any{"headers": map[string]any{"customRequestHeaders": map[string]any{"Host": host}}}}
}
