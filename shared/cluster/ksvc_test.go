package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/deploy"
)

// defineKnative has the API server serve Knative Services, as far as is needed here.
func (b *bench) defineKnative() {
	b.Helper()
	loose := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "services.serving.knative.dev"},
		"spec": map[string]any{
			"group": "serving.knative.dev", "scope": "Namespaced",
			"names": map[string]any{"kind": "Service", "listKind": "ServiceList", "plural": "services", "singular": "service"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": loose, "status": loose},
				}},
			}},
		},
	}}
	definitions := b.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := definitions.Create(b.Context(), definition, metav1.CreateOptions{})
	if err != nil && !kerrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	for again := time.NewTicker(50 * time.Millisecond); ; {
		if _, err := b.dynamic.Resource(knativeServices()).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			again.Stop()
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			b.Fatal("Knative Services are not served")
		}
	}
}

// makeKnative makes a Knative Service of the app's name, as its owner would.
func (b *bench) makeKnative() {
	b.Helper()
	b.must(b.cluster.EnsureNamespace(b.Context(), b.app.Namespace))
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service",
		"metadata": map[string]any{"name": b.app.Name, "namespace": b.app.Namespace, "labels": map[string]any{"team": "shop"}},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"name": "hello-first", "annotations": map[string]any{"autoscaling.knative.dev/min-scale": "1"}},
			"spec": map[string]any{"containers": []any{
				map[string]any{"name": "sidecar", "image": "proxy:v1"},
				map[string]any{"name": "hello", "image": "hello:old", "env": []any{map[string]any{"name": "A", "value": "b"}}},
			}},
		}},
	}}
	_, err := b.dynamic.Resource(knativeServices()).Namespace(b.app.Namespace).Create(b.Context(), service, metav1.CreateOptions{})
	b.must(err)
}

func TestKnativeService(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.defineKnative()
	b.makeKnative()
	b.must(b.cluster.Place(t.Context(), b.objects(), b.app))
	got, err := b.dynamic.Resource(knativeServices()).Namespace(b.app.Namespace).Get(t.Context(), "hello", metav1.GetOptions{})
	b.must(err)
	want := map[string]any{"template": map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"autoscaling.knative.dev/min-scale": "1", "sluice.dev/revision": "1"}},
		"spec": map[string]any{"containers": []any{
			map[string]any{"name": "sidecar", "image": "proxy:v1"},
			map[string]any{"name": "hello", "image": b.app.Image, "env": []any{map[string]any{"name": "A", "value": "b"}}},
		}},
	}}
	if diff := cmp.Diff(want, got.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if got.GetLabels()["team"] != "shop" {
		t.Errorf("labels %v", got.GetLabels())
	}
	o := b.objects()
	if o.deployment != nil || o.service != nil {
		t.Error("there is a Deployment or a Service beside the Knative Service")
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
		t.Error("the list lacks it")
	}
	b.app.Image, b.app.Revision = "hello:v2", 2
	if seen.Runs(b.app) {
		t.Error("it runs a revision that it was not given")
	}
	b.must(b.cluster.ApplyWorkload(t.Context(), seen, b.app))
	b.conflict(b.cluster.ApplyWorkload(t.Context(), seen, b.app))
	b.must(b.cluster.Withdraw(t.Context(), b.app.Ref()))
	if seen, err = b.cluster.Workload(t.Context(), b.app.Ref()); err != nil || !seen.Absent() {
		t.Errorf("after withdrawal: %+v, %v", seen, err)
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
		{"no status yet", nil, deploy.Observation{Revision: 3, Message: "Knative has not taken up the change yet."}},
		{
			"of the generation before",
			map[string]any{"observedGeneration": int64(1), "conditions": condition("True", "")},
			deploy.Observation{Revision: 3, Message: "Knative has not taken up the change yet."},
		},
		{
			"starting",
			map[string]any{"observedGeneration": int64(2), "conditions": condition("Unknown", "Waiting."), "latestCreatedRevisionName": "b", "latestReadyRevisionName": "a"},
			deploy.Observation{Revision: 3, Message: "Waiting.", ProgressAt: at},
		},
		{
			"the revision before is ready",
			map[string]any{"observedGeneration": int64(2), "conditions": condition("True", ""), "latestCreatedRevisionName": "b", "latestReadyRevisionName": "a"},
			deploy.Observation{Revision: 3, ProgressAt: at},
		},
		{
			"ready",
			map[string]any{"observedGeneration": int64(2), "conditions": condition("True", ""), "latestCreatedRevisionName": "b", "latestReadyRevisionName": "b"},
			deploy.Observation{Revision: 3, Ready: true, ProgressAt: at},
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
			if diff := cmp.Diff(tt.want, knativeObservation(s)); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
		})
	}
}
