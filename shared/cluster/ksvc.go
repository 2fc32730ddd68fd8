package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
)

// An app's Knative Service is adopted, never made: whoever wants an app to scale to
// zero makes one of the app's name, before the app or later, and from then on deployments
// change the image of its container and the revision annotation of its template, take
// the service account's token away where nobody asked for one (see podSpec), and nothing
// else. Its list of containers is one field to server-side apply, so it is read,
// changed and written back, bound to the version that was read. Knative itself keeps the
// last ready revision serving while the next one starts. How requests get there is told
// in knativeroute.go.

func knativeServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
}

// allKnative lists the Knative Services that carry Sluice's label; in a cluster
// without Knative there are none.
func (c *Cluster) allKnative(ctx context.Context) (map[app.Ref]*unstructured.Unstructured, error) {
	all, err := c.allOf(ctx, knativeServices())
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a nil map is an empty one
	}
	return all, err
}

// updateKnative writes the app's image and revision into its Knative Service.
func (c *Cluster) updateKnative(ctx context.Context, there *unstructured.Unstructured, a app.App) error {
	if a.Image == "" {
		return fmt.Errorf("update knative service %s: %w", a.Ref(), errors.New("there is no image yet"))
	}
	shall, err := knativeRunning(there, a)
	if err != nil {
		return fmt.Errorf("update knative service %s: %w", a.Ref(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = c.dynamic.Resource(knativeServices()).Namespace(a.Namespace).
		Update(ctx, shall, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("update knative service %s: %w", a.Ref(), known(err))
	}
	return nil
}

// knativeRunning is what a Knative Service shall be to run the app.
func knativeRunning(there *unstructured.Unstructured, a app.App) (*unstructured.Unstructured, error) {
	shall := there.DeepCopy()
	containers, i, err := knativeContainer(shall, a.Name)
	if err != nil {
		return nil, err
	}
	container, _ := containers[i].(map[string]any) // knativeContainer has looked
	container["image"] = a.Image
	if err := unstructured.SetNestedSlice(shall.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		return nil, err
	}
	err = unstructured.SetNestedField(shall.Object, strconv.FormatInt(a.Revision, 10),
		"spec", "template", "metadata", "annotations", revisionAnnotation)
	if err != nil {
		return nil, err
	}
	if err := withoutToken(shall); err != nil {
		return nil, err
	}
	// A name given by hand is good for one revision only; Knative makes one up.
	unstructured.RemoveNestedField(shall.Object, "spec", "template", "metadata", "name")
	all := shall.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range labels(a.Name) {
		all[k] = v
	}
	shall.SetLabels(all)
	return shall, nil
}

// withoutToken does for a Knative Service what [podSpec] does for a Deployment.
func withoutToken(s *unstructured.Unstructured) error {
	account, _, err := unstructured.NestedString(s.Object, "spec", "template", "spec", "serviceAccountName")
	if err != nil {
		return err
	}
	asked, asks, err := unstructured.NestedBool(s.Object, "spec", "template", "spec", "automountServiceAccountToken")
	if err != nil {
		return err
	}
	var wish *bool
	if asks {
		wish = &asked
	}
	if !tokenless(account, wish) {
		return nil
	}
	return unstructured.SetNestedField(s.Object, false, "spec", "template", "spec", "automountServiceAccountToken")
}

// knativeContainer finds the container that is the app, as [appContainer] does.
func knativeContainer(s *unstructured.Unstructured, name string) (containers []any, i int, err error) {
	containers, _, err = unstructured.NestedSlice(s.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return nil, 0, err
	}
	found := -1
	for i, one := range containers {
		container, ok := one.(map[string]any)
		if !ok {
			return nil, 0, errors.New("a container is no object")
		}
		if found < 0 || container["name"] == name {
			found = i
		}
	}
	if found < 0 {
		return nil, 0, errors.New("there is no container")
	}
	return containers, found, nil
}

func knativeRight(s *unstructured.Unstructured, a app.App) bool {
	if a.Image == "" {
		return true
	}
	containers, i, err := knativeContainer(s, a.Name)
	if err != nil {
		return false
	}
	container, _ := containers[i].(map[string]any) // knativeContainer has looked
	return container["image"] == a.Image && knativeRevision(s) == a.Revision && hasAll(s.GetLabels(), labels(a.Name))
}

// knativeRevision is the app's revision that a Knative Service shall run; 0 when it
// does not say.
func knativeRevision(s *unstructured.Unstructured) int64 {
	text, _, err := unstructured.NestedString(s.Object, "spec", "template", "metadata", "annotations", revisionAnnotation)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
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
	conditions, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions")
	for _, one := range conditions {
		c, ok := one.(map[string]any)
		if !ok || c["type"] != "Ready" {
			continue
		}
		o.Ready = c["status"] == "True"
		o.Message, _ = c["message"].(string)
		if at, ok := c["lastTransitionTime"].(string); ok {
			o.ProgressAt = instant(at)
		}
	}
	created, _, _ := unstructured.NestedString(s.Object, "status", "latestCreatedRevisionName")
	ready, _, _ := unstructured.NestedString(s.Object, "status", "latestReadyRevisionName")
	if created == "" || created != ready {
		o.Ready = false
	}
	if o.Ready {
		o.Message = ""
	}
	return o
}
