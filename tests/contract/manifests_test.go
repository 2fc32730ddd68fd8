package contract

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	metricsPort        = "9090"
	metricsPortKnative = "9095" // the queue-proxy in the same pod has 9090
)

type object = unstructured.Unstructured

func as[T any](t *testing.T, o *object) T {
	t.Helper()
	var v T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &v); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return v
}

func rendered(t *testing.T, name string) []*object {
	t.Helper()
	all, err := renderings[name]()
	check.OK(t, err)
	return all
}

// renderings are the standard values files whose functions run in the cluster.
var renderings = map[string]func() ([]*object, error){
	"knative": sync.OnceValues(func() ([]*object, error) { return chart("knative") }),
	"plain":   sync.OnceValues(func() ([]*object, error) { return chart("plain") }),
	"local":   sync.OnceValues(func() ([]*object, error) { return chart("local") }),
}

func chart(name string) ([]*object, error) {
	return manifest.Chart(checkout, "--values", filepath.Join(checkout, "infra", "chart", "values", name+".yaml"))
}

// pods returns the pod templates by function, with the label that Knative sets.
func pods(t *testing.T, name string) map[string]core.PodTemplateSpec {
	t.Helper()
	all := map[string]core.PodTemplateSpec{}
	for _, o := range rendered(t, name) {
		if o.GetKind() != "Deployment" && !isKnative(o) {
			continue
		}
		template := as[struct {
			Spec struct {
				Template core.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}](t, o).Spec.Template
		if isKnative(o) {
			template.Labels["serving.knative.dev/service"] = o.GetName()
		}
		all[template.Labels["sluice.dev/function"]] = template
	}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, functions()) {
		t.Fatalf("%s has pods of %v, want one of each function: %v", name, got, functions())
	}
	return all
}

func isKnative(o *object) bool {
	return o.GetKind() == "Service" && o.GroupVersionKind().Group == "serving.knative.dev"
}

// environment returns the settings of a pod's function and those of all functions. Values from
// Secrets or the pod are "".
func environment(t *testing.T, name string, pod core.PodTemplateSpec) (own, common map[string]string) {
	t.Helper()
	maps := map[string]map[string]string{}
	for _, o := range rendered(t, name) {
		if o.GetKind() == "ConfigMap" {
			maps[o.GetName()] = as[core.ConfigMap](t, o).Data
		}
	}
	own = map[string]string{}
	container := pod.Spec.Containers[0]
	for _, e := range container.Env {
		own[e.Name] = e.Value
		if e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil {
			continue
		}
		value, ok := maps[e.ValueFrom.ConfigMapKeyRef.Name][e.ValueFrom.ConfigMapKeyRef.Key]
		if !ok {
			t.Errorf("%s: %s is not in the ConfigMap %s", container.Name, e.Name, e.ValueFrom.ConfigMapKeyRef.Name)
		}
		own[e.Name] = value
	}
	for _, from := range container.EnvFrom {
		if common = maps[from.ConfigMapRef.Name]; common == nil {
			t.Errorf("%s: missing ConfigMap %s", container.Name, from.ConfigMapRef.Name)
		}
	}
	return own, common
}

// TestManifestSettings checks that functions get all required settings and read all settings that
// they get.
func TestManifestSettings(t *testing.T) {
	t.Parallel()
	for name := range renderings {
		read := map[string]bool{}
		var allCommon map[string]string
		for function, pod := range pods(t, name) {
			own, common := environment(t, name, pod)
			if common != nil {
				allCommon = common
			}
			known := settingsOf(t, function)
			for setting, required := range known {
				read[setting] = true
				if own[setting] == "" && common[setting] == "" && required && !fromElsewhere(pod, setting) {
					t.Errorf("%s: %s lacks %s", name, function, setting)
				}
			}
			for setting := range own {
				if _, ok := known[setting]; !ok && setting != "GOMEMLIMIT" { // the Go runtime reads it
					t.Errorf("%s: %s does not read %s", name, function, setting)
				}
			}
			checkProcess(t, name+": "+function, pod, own)
		}
		for setting := range allCommon {
			if !read[setting] {
				t.Errorf("%s: no function reads %s", name, setting)
			}
		}
	}
}

// fromElsewhere reports whether a setting's value comes from a Secret or the pod.
func fromElsewhere(pod core.PodTemplateSpec, setting string) bool {
	return slices.ContainsFunc(pod.Spec.Containers[0].Env, func(e core.EnvVar) bool {
		return e.Name == setting && e.ValueFrom != nil && (e.ValueFrom.SecretKeyRef != nil || e.ValueFrom.FieldRef != nil)
	})
}

func checkProcess(t *testing.T, what string, pod core.PodTemplateSpec, own map[string]string) {
	t.Helper()
	port := metricsPort
	if pod.Labels["serving.knative.dev/service"] != "" {
		port = metricsPortKnative
	}
	if own["GOMEMLIMIT"] == "" {
		t.Errorf("%s: GOMEMLIMIT is not set", what)
	}
	if own["METRICS_PORT"] != port {
		t.Errorf("%s: METRICS_PORT: got %q, want %s", what, own["METRICS_PORT"], port)
	}
	function := pod.Labels["sluice.dev/function"]
	if own["FUNCTION_TARGET"] != function {
		t.Errorf("%s: FUNCTION_TARGET: got %q, want %s", what, own["FUNCTION_TARGET"], function)
	}
}
