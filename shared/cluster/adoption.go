package cluster

import (
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	// adoptAnnotation allows an app to adopt an object that Sluice did not create. The app's
	// images then run with the object's Secrets, volumes and service account.
	adoptAnnotation = "sluice.dev/adopt"

	// adoptedAnnotation marks an adopted object. The object remains when the app is deleted.
	adoptedAnnotation = "sluice.dev/adopted"
)

// ours reports whether an object exists and Sluice created or adopted it.
func ours[T any, P object[T]](o P) bool { return o != nil && hasAll(o.GetLabels(), managed()) }

// foreign reports whether an object exists that no app may adopt. An object that Sluice created
// does not become foreign if its labels are removed.
func foreign[T any, P object[T]](o P) bool {
	if o == nil || ours(o) || o.GetAnnotations()[adoptAnnotation] == "true" {
		return false
	}
	made := slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == fieldManager && m.Operation == metav1.ManagedFieldsOperationApply
	})
	return !made || adopted(o)
}

// adopted reports whether Sluice did not create an object, but has adopted it or may adopt it.
func adopted[T any, P object[T]](o P) bool {
	if o == nil {
		return false
	}
	all := o.GetAnnotations()
	return all[adoptedAnnotation] == "true" || !ours(o) && all[adoptAnnotation] == "true" || selectedByOthers(o.GetManagedFields())
}

// selectedByOthers reports whether another field manager set the pod selector. It finds objects
// that earlier releases adopted without adoptedAnnotation.
func selectedByOthers(managed []metav1.ManagedFieldsEntry) bool {
	for _, m := range managed {
		if m.Manager == fieldManager || m.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec struct {
				Selector json.RawMessage `json:"f:selector"`
			} `json:"f:spec"`
		}
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) == nil && fields.Spec.Selector != nil {
			return true
		}
	}
	return false
}

// Taken returns a name_taken problem if the app may not adopt an existing object with its name.
func (o Objects) Taken(ref app.Ref) error {
	switch {
	case o.knative != nil && foreign(o.knative):
		return nameTaken("Knative Service", ref)
	case foreign(o.deployment):
		return nameTaken("Deployment", ref)
	case foreign(o.service):
		return nameTaken("Service", ref)
	case foreign(o.route):
		return nameTaken(o.route.GetKind(), ref)
	}
	return nil
}

// CheckAdoption is like [Objects.Taken]. It also returns a name_taken problem if the API server would
// reject the changes to an existing Service.
func (c *Cluster) CheckAdoption(ctx context.Context, o Objects, a app.App) error {
	if err := o.Taken(a.Ref()); err != nil || o.service == nil || ours(o.service) {
		return err
	}
	err := c.services(a.Namespace).tryApply(ctx, service(o.service, a))
	if reason, refused := Refusal(err); refused {
		return problem.New(problem.NameTaken, "The Service %s cannot be adopted: %.500s", a.Ref(), reason)
	}
	return nil // the write returns any other error
}

func nameTaken(kind string, ref app.Ref) error {
	return problem.New(problem.NameTaken,
		"The namespace %s has a %s named %s that Sluice did not make. To let the app adopt it, a cluster administrator must set the annotation %s: \"true\" on it.",
		ref.Namespace, kind, ref.Name, adoptAnnotation)
}

// withdraw deletes an object of a deleted app. It does not delete an adopted object, but removes
// Sluice's labels from it. The labels of its pods remain, so that they are not restarted.
func withdraw[T any, P object[T]](ctx context.Context, k typed[T], seen P) error {
	switch {
	case !ours(seen):
		return nil
	case !adopted(seen):
		return deleteSeen(ctx, k, seen, same)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": seen.GetResourceVersion(),
		"labels":          map[string]any{managedByLabel: nil, appLabel: nil},
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = k.api.Patch(ctx, seen.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return k.failed("release", seen.GetName(), err)
}

// releaseKnative removes Sluice's labels from the Knative Service of a deleted app. Knative Services
// are always adopted.
func (c *Cluster) releaseKnative(ctx context.Context, w Workload) error {
	if !ours(w.knative) {
		return nil
	}
	desired := w.knative.DeepCopy()
	all := desired.GetLabels()
	delete(all, managedByLabel)
	delete(all, appLabel)
	if hiddenBySluice(desired) {
		delete(all, visibilityLabel)
	}
	desired.SetLabels(all)
	notes := desired.GetAnnotations()
	delete(notes, hiddenAnnotation)
	desired.SetAnnotations(notes)
	_, err := c.knativeServices(w.ref.Namespace).write(ctx, desired)
	return err
}
