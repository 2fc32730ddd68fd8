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

// knative is a Knative Service, and what its status was, one entry for each change.
type knative struct {
	*runtime
	name string
	past []string
}

// in gives the same service to a subtest.
func (k *knative) in(t *testing.T) *knative {
	t.Helper()
	return &knative{k.runtime.in(t), k.name, k.past}
}

// knativeService makes a Knative Service and follows its status.
func (r *runtime) knativeService(name, image string) *knative {
	r.Helper()
	k := &knative{runtime: r, name: name}
	follow, err := r.services().Watch(r.Context(), meta.ListOptions{FieldSelector: "metadata.name=" + name})
	check.OK(r.T, err)
	past := make(chan []string, 1)
	go func() {
		var seen []string
		for e := range follow.ResultChan() {
			if u, ok := e.Object.(*unstructured.Unstructured); ok {
				seen = append(seen, told(u))
			}
		}
		past <- slices.DeleteFunc(slices.Compact(seen), func(s string) bool { return s == "//" })
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
	r.settles(name, name+"-00001")
	follow.Stop()
	k.past = <-past
	return k
}

func (r *runtime) services() dynamic.ResourceInterface {
	return r.objects("serving.knative.dev", "v1", "services")
}

// told is the three conditions' statuses, e.g. "Unknown/Unknown/Unknown": the
// Configurations', the Routes' and the summary.
func told(u *unstructured.Unstructured) string {
	return strings.Join([]string{conditionOf(u, "ConfigurationsReady").Status, conditionOf(u, "RoutesReady").Status, conditionOf(u, "Ready").Status}, "/")
}

// settles waits until a service says True or False of the revision that was made last.
func (r *runtime) settles(name, revision string) *unstructured.Unstructured {
	r.Helper()
	var u *unstructured.Unstructured
	r.eventually("settle "+name, func() (err error) {
		u, err = r.services().Get(r.Context(), name, meta.GetOptions{})
		if err != nil {
			return err
		}
		if made := textOf(u, "status", "latestCreatedRevisionName"); made != revision || strings.Contains(told(u), "Unknown") || told(u) == "//" {
			return fmt.Errorf("%s is %s", made, told(u))
		}
		return nil
	})
	return u
}

// runs has a service run another image.
func (k *knative) runs(image, revision string) *unstructured.Unstructured {
	k.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	_, err := k.services().Patch(k.Context(), k.name, types.JSONPatchType, []byte(patch), meta.PatchOptions{})
	check.OK(k.T, err)
	return k.settles(k.name, revision)
}

// observation is what Sluice makes of a service.
func (r *runtime) observation(name string) deploy.Observation {
	r.Helper()
	w, err := r.sluice.Workload(r.Context(), app.Ref{Namespace: r.namespace, Name: name})
	check.OK(r.T, err)
	return w.Observation()
}

// TestKnative: a service from its first revision to the next.
func TestKnative(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	k := r.knativeService("hello", image)
	t.Run("statuses in their order", func(t *testing.T) {
		order := []string{"Unknown/Unknown/Unknown", "True/True/True"}
		if first, last := k.past[0], k.past[len(k.past)-1]; first != order[0] || last != order[1] || strings.Contains(strings.Join(k.past, " "), "False") {
			t.Errorf("%q", k.past)
		}
	})
	t.Run("revisions are numbered", func(t *testing.T) {
		u := k.in(t).runs(next, "hello-00002")
		if ready := textOf(u, "status", "latestReadyRevisionName"); ready != "hello-00002" || told(u) != "True/True/True" {
			t.Errorf("%s: %s", ready, told(u))
		}
		if o := r.observation("hello"); !o.Ready {
			t.Errorf("%+v", o)
		}
	})
	t.Run("the placeholder", func(t *testing.T) { r.in(t).placeholder("hello") })
	t.Run("inside of the cluster alone", func(t *testing.T) {
		r := r.in(t)
		patch := `{"metadata":{"labels":{"networking.knative.dev/visibility":"cluster-local"}}}`
		_, err := r.services().Patch(t.Context(), "hello", types.MergePatchType, []byte(patch), meta.PatchOptions{})
		check.OK(t, err)
		r.eventually("be inside", func() error {
			u, err := r.services().Get(t.Context(), "hello", meta.GetOptions{})
			if host := "hello." + r.namespace + ".svc.cluster.local"; err == nil && strings.TrimSuffix(textOf(u, "status", "url"), "/") != "http://"+host {
				return fmt.Errorf("url %s", textOf(u, "status", "url"))
			}
			return err
		})
		r.placeholder("hello") // it does not carry that label
	})
}

// placeholder expects the Kubernetes Service that Knative makes for a service.
func (r *runtime) placeholder(name string) {
	r.Helper()
	s, err := r.service(name)
	check.OK(r.T, err)
	want := map[string]string{
		"team": "shop", "app.kubernetes.io/managed-by": "sluice", "serving.knative.dev/service": name, "serving.knative.dev/route": name,
	}
	check.Equal(r, "labels", want, s.Labels)
	if by := controls(s); by != "serving.knative.dev/v1 Route "+name || s.Spec.Type != core.ServiceTypeExternalName {
		r.Errorf("it is controlled by %q, and a Service of type %s", by, s.Spec.Type)
	}
}

// TestKnativeImageThatIsMissing: of a first revision the summary says only that there is
// none; the next leaves the one before it serving.
func TestKnativeImageThatIsMissing(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	t.Run("at first", func(t *testing.T) {
		r := r.in(t)
		r.knativeService("never", missingImage)
		u, err := r.services().Get(t.Context(), "never", meta.GetOptions{})
		check.OK(t, err)
		failed, route := conditionOf(u, "ConfigurationsReady"), conditionOf(u, "RoutesReady")
		if told(u) != "False/False/False" || failed.Reason != "RevisionFailed" || route.Reason != "RevisionMissing" {
			t.Errorf("%s: %+v, %+v", told(u), failed, route)
		}
		if want := `Revision "never-00001" failed with message: `; !strings.HasPrefix(failed.Message, want) || !strings.Contains(failed.Message, missingImage) {
			t.Errorf("it says %q", failed.Message)
		}
		if o := r.observation("never"); o.Ready || o.Message != failed.Message {
			t.Errorf("Sluice says %+v", o)
		}
		if _, err := r.service("never"); !kerrors.IsNotFound(err) {
			t.Errorf("there is a placeholder already: %v", err)
		}
	})
	t.Run("later", func(t *testing.T) {
		r := r.in(t)
		u := r.knativeService("later", image).runs(missingImage, "later-00002")
		if ready := textOf(u, "status", "latestReadyRevisionName"); ready != "later-00001" || told(u) != "False/True/False" {
			t.Errorf("%s: %s", ready, told(u))
		}
		if c := conditionOf(u, "Ready"); c.Reason != "RevisionFailed" || !strings.Contains(c.Message, missingImage) {
			t.Errorf("%+v", c)
		}
		if o := r.observation("later"); o.Ready || !strings.Contains(o.Message, missingImage) {
			t.Errorf("Sluice says %+v", o)
		}
	})
}

// TestKnativeAndAnothersService: a Kubernetes Service of the name that is not Knative's keeps
// the route from becoming ready, but not the revision.
func TestKnativeAndAnothersService(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	_, err := r.kube.CoreV1().Services(r.namespace).Create(t.Context(), &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "taken"}, Spec: core.ServiceSpec{Ports: []core.ServicePort{{Port: 80}}},
	}, meta.CreateOptions{})
	check.OK(t, err)
	r.knativeService("taken", image)
	u, err := r.services().Get(t.Context(), "taken", meta.GetOptions{})
	check.OK(t, err)
	if c := conditionOf(u, "RoutesReady"); told(u) != "True/False/False" || c.Reason != "NotOwned" || !strings.Contains(c.Message, `"taken"`) {
		t.Errorf("%s: %+v", told(u), c)
	}
	check.OK(t, r.kube.CoreV1().Services(r.namespace).Delete(t.Context(), "taken", meta.DeleteOptions{}))
	r.eventually("take the name", func() error {
		u, err := r.services().Get(t.Context(), "taken", meta.GetOptions{})
		if err == nil && told(u) != "True/True/True" {
			return fmt.Errorf("it is %s", told(u))
		}
		return err
	})
}

// TestDeploymentImageThatIsMissing: it is told when the time that it may take is up.
func TestDeploymentImageThatIsMissing(t *testing.T) {
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
		t.Errorf("Sluice says %+v", o)
	}
}
