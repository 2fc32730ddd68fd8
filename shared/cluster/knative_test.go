package cluster

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/tests/check"
)

var defined sync.Once

func (b *bench) define() {
	b.Helper()
	defined.Do(func() {
		b.must(crds.Define(b.Context(), filepath.Join("..", ".."), b.dynamic, crds.Serving(), crds.EnvoyGateway()))
	})
}

func (b *bench) makeKnative() {
	b.Helper()
	b.must(b.cluster.EnsureNamespace(b.Context(), b.app.Namespace))
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service",
		"metadata": map[string]any{"name": b.app.Name, "namespace": b.app.Namespace, "labels": map[string]any{"team": "shop"}, "annotations": map[string]any{"sluice.dev/adopt": "true"}},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"name": "hello-first", "annotations": map[string]any{"autoscaling.knative.dev/min-scale": "1"}},
			"spec": map[string]any{"containers": []any{
				map[string]any{"name": "sidecar", "image": "proxy:v1"},
				map[string]any{"name": "hello", "image": "hello:old", "env": []any{map[string]any{"name": "A", "value": "b"}}},
			}},
		}},
	}}
	_, err := b.cluster.knativeServices(b.app.Namespace).api.Create(b.Context(), service, metav1.CreateOptions{})
	b.must(err)
}

func TestKnativeService(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.define()
	b.makeKnative()
	b.must(b.cluster.Apply(t.Context(), b.objects(), b.app))
	got, err := b.cluster.knativeServices(b.app.Namespace).api.Get(t.Context(), "hello", metav1.GetOptions{})
	b.must(err)
	want := map[string]any{"template": map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"autoscaling.knative.dev/min-scale": "1", "sluice.dev/revision": "1"}},
		"spec": map[string]any{"automountServiceAccountToken": false, "containers": []any{
			map[string]any{"name": "sidecar", "image": "proxy:v1"},
			map[string]any{"name": "hello", "image": b.app.Image, "env": []any{map[string]any{"name": "A", "value": "b"}}},
		}},
	}}
	check.Equal(t, "spec", want, got.Object["spec"])
	if got.GetLabels()["team"] != "shop" {
		t.Errorf("labels %v", got.GetLabels())
	}
	o := b.objects()
	if o.deployment != nil || o.service != nil {
		t.Error("the app has a Deployment or a Service in addition to the Knative Service")
	}
	if s := b.cluster.State(o, b.app, nil); s.Deployment != Right || s.Service != Right {
		t.Errorf("state %+v", s)
	}
	seen, err := b.cluster.Workload(t.Context(), b.app.Ref())
	b.must(err)
	if seen.Absent() || !seen.Runs(b.app) || seen.Observation().Ready {
		t.Errorf("runs %v, %+v", seen.Runs(b.app), seen.Observation())
	}
	all, err := b.cluster.Workloads(t.Context())
	b.must(err)
	if !all.Of(b.app.Ref()).Runs(b.app) {
		t.Error("Workloads does not contain the Knative Service")
	}
	b.app.Image, b.app.Revision = "hello:v2", 2
	if seen.Runs(b.app) {
		t.Error("Runs returned true for another revision")
	}
	b.must(b.cluster.ApplyWorkload(t.Context(), seen, b.app))
	b.conflict(b.cluster.ApplyWorkload(t.Context(), seen, b.app))
	b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
	seen, err = b.cluster.Workload(t.Context(), b.app.Ref())
	b.must(err)
	if seen.knative == nil || ours(seen.knative) || seen.knative.GetLabels()["team"] != "shop" || seen.knative.GetAnnotations()[adoptedAnnotation] != "true" {
		t.Errorf("after the app's deletion: %+v", seen.knative)
	}
}

func TestKnativeObservation(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	condition := func(status, message string) []any {
		return []any{map[string]any{"type": "Ready", "status": status, "message": message, "lastTransitionTime": "2026-03-14T12:00:00Z"}}
	}
	tests := []struct {
		name   string
		status map[string]any
		want   deploy.Observation
	}{
		{"no status yet", nil, deploy.Observation{Revision: 3, Message: "Knative has not processed the change yet."}},
		{
			"of the generation before",
			map[string]any{"observedGeneration": int64(1), "conditions": condition("True", "")},
			deploy.Observation{Revision: 3, Message: "Knative has not processed the change yet."},
		},
		{
			"starting",
			map[string]any{"observedGeneration": int64(2), "conditions": condition("Unknown", "Waiting."), "latestCreatedRevisionName": "b", "latestReadyRevisionName": "a"},
			deploy.Observation{Revision: 3, Message: "Waiting.", ProgressAt: at},
		},
		{
			"the first revision has failed",
			map[string]any{"observedGeneration": int64(2), "latestCreatedRevisionName": "b", "conditions": append(
				condition("False", "There is no ready Revision."), map[string]any{"type": "ConfigurationsReady", "status": "False", "message": "It exits."},
			)},
			deploy.Observation{Revision: 3, Message: "It exits.", ProgressAt: at},
		},
		{
			"the previous revision is ready",
			map[string]any{"observedGeneration": int64(2), "conditions": condition("True", ""), "latestCreatedRevisionName": "b", "latestReadyRevisionName": "a"},
			deploy.Observation{Revision: 3, ProgressAt: at},
		},
		{
			"ready",
			map[string]any{"observedGeneration": int64(2), "conditions": condition("True", ""), "latestCreatedRevisionName": "b", "latestReadyRevisionName": "b"},
			deploy.Observation{Revision: 3, Ready: true, PodReady: true, ProgressAt: at},
		},
		{
			"its route is not ready",
			map[string]any{"observedGeneration": int64(2), "latestCreatedRevisionName": "b", "latestReadyRevisionName": "b", "conditions": append(
				condition("Unknown", "Waiting."), map[string]any{"type": "ConfigurationsReady", "status": "True"},
			)},
			deploy.Observation{Revision: 3, PodReady: true, Message: "Waiting.", ProgressAt: at},
		},
		{
			"the new revision is not made yet",
			map[string]any{"observedGeneration": int64(2), "latestCreatedRevisionName": "a", "latestReadyRevisionName": "a", "conditions": append(
				condition("Unknown", "Waiting."), map[string]any{"type": "ConfigurationsReady", "status": "Unknown"},
			)},
			deploy.Observation{Revision: 3, Message: "Waiting.", ProgressAt: at},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"generation": int64(2)},
				"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{revisionAnnotation: "3"}}}},
			}}
			if tt.status != nil {
				s.Object["status"] = tt.status
			}
			check.Equal(t, "observation", tt.want, knativeObservation(s))
		})
	}
}

// takeOver creates the placeholder, as Knative does once the app has no Service.
func (b *bench) takeOver() {
	b.Helper()
	existing := b.cluster.knativeServices(b.app.Namespace).api
	s, err := existing.Get(b.Context(), b.app.Name, metav1.GetOptions{})
	b.must(err)
	controller := true
	_, err = b.kube.CoreV1().Services(b.app.Namespace).Create(b.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: b.app.Name, Labels: s.GetLabels(), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "serving.knative.dev/v1", Kind: "Route", Name: b.app.Name, UID: "1d8a2b5e-0000-4000-8000-000000000000", Controller: &controller,
		}}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: "gateway.knative-serving.svc.cluster.local",
			Ports: []corev1.ServicePort{{Name: "http2", Port: 81}},
		},
	}, metav1.CreateOptions{})
	b.must(err)
	status := map[string]any{"conditions": []any{map[string]any{"type": "ConfigurationsReady", "status": "True"}}}
	s.Object["status"] = status
	_, err = existing.UpdateStatus(b.Context(), s, metav1.UpdateOptions{})
	b.must(err)
}

// TestKnativeOwnService tests that the route uses the placeholder, which has Sluice's labels, and
// that the placeholder is never deleted.
func TestKnativeOwnService(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.define()
	b.makeKnative()
	b.place()
	b.takeOver()
	seen := map[string]Objects{"Objects": b.objects()}
	all, err := b.cluster.Inventory(t.Context())
	b.must(err)
	seen["the inventory"] = all.Of(b.app.Ref())
	for how, o := range seen {
		if s := b.cluster.State(o, b.app, nil); s.Superseded || !s.HostStale || s.Service != Right {
			t.Errorf("%s: state %+v", how, s)
		}
		if port := knativePort(o); port != 81 {
			t.Errorf("%s: port %d", how, port)
		}
	}
	b.must(b.cluster.RemoveSuperseded(t.Context(), b.objects(), b.app.Ref()))
	b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
	if _, err := b.kube.CoreV1().Services(b.app.Namespace).Get(t.Context(), b.app.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("get Knative's Service: %v", err)
	}
}
