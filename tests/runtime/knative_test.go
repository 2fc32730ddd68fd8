package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/tests/check"
)

// knative is a Knative Service and the history of its status.
type knative struct {
	*runtime
	name    string
	history []string
}

func (k *knative) with(t *testing.T) *knative {
	t.Helper()
	return &knative{k.runtime.with(t), k.name, k.history}
}

// knativeService creates a service and records its status until it is ready or failed.
func (r *runtime) knativeService(name, image string) *knative {
	r.Helper()
	k := &knative{runtime: r, name: name}
	follow, err := r.services().Watch(r.Context(), meta.ListOptions{FieldSelector: "metadata.name=" + name})
	check.OK(r.T, err)
	history := make(chan []string, 1)
	go func() {
		var seen []string
		for e := range follow.ResultChan() {
			if u, ok := e.Object.(*unstructured.Unstructured); ok {
				seen = append(seen, summary(u))
			}
		}
		history <- slices.DeleteFunc(slices.Compact(seen), func(s string) bool { return s == "//" })
	}()
	_, err = r.services().Create(r.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"team": "shop", "app.kubernetes.io/managed-by": "sluice"}},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"serving.knative.dev/progress-deadline": "60s"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"image": image}}},
		}},
	}}, meta.CreateOptions{})
	check.OK(r.T, err)
	r.waitSettled(name, name+"-00001")
	follow.Stop()
	k.history = <-history
	return k
}

func (r *runtime) services() dynamic.ResourceInterface {
	return r.objects("serving.knative.dev", "v1", "services")
}

// summary returns the statuses of ConfigurationsReady, RoutesReady and Ready, e.g.
// "True/True/True".
func summary(u *unstructured.Unstructured) string {
	return strings.Join([]string{conditionOf(u, "ConfigurationsReady").Status, conditionOf(u, "RoutesReady").Status, conditionOf(u, "Ready").Status}, "/")
}

func (r *runtime) waitSettled(name, revision string) *unstructured.Unstructured {
	r.Helper()
	var u *unstructured.Unstructured
	r.eventually("settle "+name, func() (err error) {
		u, err = r.services().Get(r.Context(), name, meta.GetOptions{})
		if err != nil {
			return err
		}
		if made := textOf(u, "status", "latestCreatedRevisionName"); made != revision || strings.Contains(summary(u), "Unknown") || summary(u) == "//" {
			return fmt.Errorf("%s is %s", made, summary(u))
		}
		return nil
	})
	return u
}

func (k *knative) deployImage(image, revision string) *unstructured.Unstructured {
	k.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	_, err := k.services().Patch(k.Context(), k.name, types.JSONPatchType, []byte(patch), meta.PatchOptions{})
	check.OK(k.T, err)
	return k.waitSettled(k.name, revision)
}

func (r *runtime) observation(name string) deploy.Observation {
	r.Helper()
	w, err := r.sluice.Workload(r.Context(), app.Ref{Namespace: r.namespace, Name: name})
	check.OK(r.T, err)
	return w.Observation()
}

func TestKnative(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	k := r.knativeService("hello", image)
	t.Run("order of statuses", func(t *testing.T) {
		order := []string{"Unknown/Unknown/Unknown", "True/True/True"}
		if first, last := k.history[0], k.history[len(k.history)-1]; first != order[0] || last != order[1] || strings.Contains(strings.Join(k.history, " "), "False") {
			t.Errorf("statuses: got %q, want %q first and %q last, and no False", k.history, order[0], order[1])
		}
	})
	t.Run("revisions are numbered", func(t *testing.T) {
		u := k.with(t).deployImage(next, "hello-00002")
		if ready := textOf(u, "status", "latestReadyRevisionName"); ready != "hello-00002" || summary(u) != "True/True/True" {
			t.Errorf("got %s, %s, want hello-00002, True/True/True", ready, summary(u))
		}
		if o := r.observation("hello"); !o.Ready {
			t.Errorf("observation: got %+v, want ready", o)
		}
	})
	t.Run("the placeholder", func(t *testing.T) { r.with(t).placeholder("hello") })
	t.Run("cluster-local visibility", func(t *testing.T) {
		r := r.with(t)
		patch := `{"metadata":{"labels":{"networking.knative.dev/visibility":"cluster-local"}}}`
		_, err := r.services().Patch(t.Context(), "hello", types.MergePatchType, []byte(patch), meta.PatchOptions{})
		check.OK(t, err)
		r.eventually("become cluster-local", func() error {
			u, err := r.services().Get(t.Context(), "hello", meta.GetOptions{})
			if host := "hello." + r.namespace + ".svc.cluster.local"; err == nil && strings.TrimSuffix(textOf(u, "status", "url"), "/") != "http://"+host {
				return fmt.Errorf("url %s", textOf(u, "status", "url"))
			}
			return err
		})
		r.placeholder("hello") // it does not have that label
	})
}

// placeholder checks the Kubernetes Service that Knative creates for a service.
func (r *runtime) placeholder(name string) {
	r.Helper()
	s, err := r.service(name)
	check.OK(r.T, err)
	want := map[string]string{
		"team": "shop", "app.kubernetes.io/managed-by": "sluice", "serving.knative.dev/service": name, "serving.knative.dev/route": name,
	}
	check.Equal(r, "labels", want, s.Labels)
	if by := controllerOf(s); by != "serving.knative.dev/v1 Route "+name || s.Spec.Type != core.ServiceTypeExternalName {
		r.Errorf("got controller %q and type %s, want Route %s and ExternalName", by, s.Spec.Type, name)
	}
}

func TestKnativeMissingImage(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	t.Run("at first", func(t *testing.T) {
		r := r.with(t)
		r.knativeService("never", missingImage)
		u, err := r.services().Get(t.Context(), "never", meta.GetOptions{})
		check.OK(t, err)
		failed, route := conditionOf(u, "ConfigurationsReady"), conditionOf(u, "RoutesReady")
		if summary(u) != "False/False/False" || failed.Reason != "RevisionFailed" || route.Reason != "RevisionMissing" {
			t.Errorf("got %s, %+v, %+v, want False, RevisionFailed and RevisionMissing", summary(u), failed, route)
		}
		if want := `Revision "never-00001" failed with message: `; !strings.HasPrefix(failed.Message, want) || !strings.Contains(failed.Message, missingImage) {
			t.Errorf("message: got %q, want %q and the image", failed.Message, want)
		}
		if o := r.observation("never"); o.Ready || o.Message != failed.Message {
			t.Errorf("observation: got %+v, want the message %q", o, failed.Message)
		}
		if _, err := r.service("never"); !kerrors.IsNotFound(err) {
			t.Errorf("placeholder: got %v, want not found", err)
		}
	})
	t.Run("later", func(t *testing.T) {
		r := r.with(t)
		u := r.knativeService("later", image).deployImage(missingImage, "later-00002")
		if ready := textOf(u, "status", "latestReadyRevisionName"); ready != "later-00001" || summary(u) != "False/True/False" {
			t.Errorf("got %s, %s, want later-00001, False/True/False", ready, summary(u))
		}
		if c := conditionOf(u, "Ready"); c.Reason != "RevisionFailed" || !strings.Contains(c.Message, missingImage) {
			t.Errorf("condition: got %+v, want RevisionFailed with the image", c)
		}
		if o := r.observation("later"); o.Ready || !strings.Contains(o.Message, missingImage) {
			t.Errorf("observation: got %+v, want a message with the image", o)
		}
	})
}

// TestKnativeServiceNameTaken creates a Kubernetes Service with the same name first. It blocks the
// route, but not the revision.
func TestKnativeServiceNameTaken(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	_, err := r.kube.CoreV1().Services(r.namespace).Create(t.Context(), &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "taken"}, Spec: core.ServiceSpec{Ports: []core.ServicePort{{Port: 80}}},
	}, meta.CreateOptions{})
	check.OK(t, err)
	r.knativeService("taken", image)
	u, err := r.services().Get(t.Context(), "taken", meta.GetOptions{})
	check.OK(t, err)
	if c := conditionOf(u, "RoutesReady"); summary(u) != "True/False/False" || c.Reason != "NotOwned" || !strings.Contains(c.Message, `"taken"`) {
		t.Errorf("got %s, %+v, want True/False/False, NotOwned", summary(u), c)
	}
	check.OK(t, r.kube.CoreV1().Services(r.namespace).Delete(t.Context(), "taken", meta.DeleteOptions{}))
	r.eventually("take the name", func() error {
		u, err := r.services().Get(t.Context(), "taken", meta.GetOptions{})
		if err == nil && summary(u) != "True/True/True" {
			return fmt.Errorf("it is %s", summary(u))
		}
		return err
	})
}

func TestDeploymentWithMissingImage(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	deployments := r.objects("apps", "v1", "deployments")
	labels := map[string]any{"app": "never"}
	_, err := deployments.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "never"},
		"spec": map[string]any{
			"progressDeadlineSeconds": int64(3), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": missingImage}}},
			},
		},
	}}, meta.CreateOptions{})
	check.OK(t, err)
	r.eventually("fail", func() error {
		u, err := deployments.Get(context.WithoutCancel(t.Context()), "never", meta.GetOptions{})
		if err != nil {
			return err
		}
		progress, available := conditionOf(u, "Progressing"), conditionOf(u, "Available")
		if progress.Status != "False" || progress.Reason != "ProgressDeadlineExceeded" || available.Reason != "MinimumReplicasUnavailable" {
			return fmt.Errorf("%+v, %+v", progress, available)
		}
		return nil
	})
	if o := r.observation("never"); o.Ready || !strings.Contains(o.Message, "has timed out progressing") {
		t.Errorf("observation: got %+v, want has timed out progressing", o)
	}
}
