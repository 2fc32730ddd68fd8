package workloads

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/tests/check"
)

func TestKnativeStatus(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name, image, deadline string
		served                bool // by a previous revision
		after                 time.Duration
		want, reason          string // statuses of configurations, routes and Ready; its reason
	}{
		{"initial", "r.example/hello:v1", "", false, 0, "Unknown/Unknown/Unknown", "RevisionMissing"},
		{"ready", "r.example/hello:v1", "", false, time.Second, "True/True/True", ""},
		{"initial, with a previous revision", "r.example/hello:v1", "", true, 0, "Unknown/True/Unknown", ""},
		{"missing image", "r.example/missing/hello:v1", "", false, time.Second, "False/False/False", "RevisionMissing"},
		{"missing image, with a previous revision", "r.example/missing/hello:v1", "", true, time.Second, "False/True/False", "RevisionFailed"},
		{"never ready, before the deadline", "r.example/hello:broken", "30s", false, 29 * time.Second, "Unknown/Unknown/Unknown", "RevisionMissing"},
		{"never ready, after the deadline", "r.example/hello:broken", "30s", false, 30 * time.Second, "False/False/False", "RevisionMissing"},
		{"never ready, before Knative's default deadline", "r.example/hello:broken", "", false, 599 * time.Second, "Unknown/Unknown/Unknown", "RevisionMissing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "hello", "namespace": "shop-prod", "generation": int64(1)},
				"spec": map[string]any{"template": map[string]any{
					"metadata": map[string]any{"annotations": map[string]any{deadlineAnnotation: tt.deadline}},
					"spec":     map[string]any{"containers": []any{map[string]any{"image": tt.image}}},
				}},
			}}
			d, err := asDeployment(s)
			check.OK(t, err)
			r := rollout{template: templateDigest(d), since: began}
			if tt.served {
				r.serving = &Pod{App: "hello"}
			}
			r, _ = step(d, r, began.Add(tt.after), readyAfter)
			conditions := map[string]map[string]any{}
			for _, c := range knativeStatus(s, d, r, true, began.Add(tt.after))["conditions"].([]any) { //nolint:forcetypeassert // the type that knativeStatus returns
				fields := c.(map[string]any)                 //nolint:forcetypeassert // as before
				conditions[fields["type"].(string)] = fields //nolint:forcetypeassert // as before
			}
			text := func(kind, field string) string { s, _ := conditions[kind][field].(string); return s }
			got := text("ConfigurationsReady", "status") + "/" + text("RoutesReady", "status") + "/" + text("Ready", "status")
			if got != tt.want || text("Ready", "reason") != tt.reason {
				t.Errorf("got %s, %q, want %s, %q", got, text("Ready", "reason"), tt.want, tt.reason)
			}
		})
	}
}
