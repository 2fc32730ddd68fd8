package infra

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/emulators/kube"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

var sets = []string{"plain", "local", "openfaas", "knative"}

// render renders the chart with a standard set of values.
func render(t *testing.T, set string) []*unstructured.Unstructured {
	t.Helper()
	all, err := manifest.Chart(root(t), "--values", filepath.Join(root(t), "infra", "chart", "values", set+".yaml"))
	check.OK(t, err)
	return all
}

// newAPIServer starts an API server with the prerequisites of Sluice and encrypted Secrets.
func newAPIServer(t *testing.T) (kubeconfig string, config *rest.Config) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "infra/encryption/encryption-configuration.yaml"))
	check.OK(t, err)
	key := make([]byte, 32)
	rand.Read(key)
	encryption := strings.Replace(string(text), "REPLACE-WITH-32-RANDOM-BYTES-IN-BASE64", base64.StdEncoding.EncodeToString(key), 1)
	server, config := clustertest.Start(t, kube.Options{Root: root(t), Encryption: []byte(encryption)})
	config.QPS, config.Burst = -1, 0 // no limit
	client, err := dynamic.NewForConfig(config)
	check.OK(t, err)
	sets := []crds.Set{crds.Traefik(), crds.Serving(), crds.Eventing(), crds.Tekton(), crds.Gateway(), crds.EnvoyGateway()}
	check.OK(t, crds.Define(t.Context(), root(t), client, sets...))
	return server.Kubeconfig, config
}

// TestManifests applies the examples and each set of values, one after the other, as in a
// migration. Unknown fields and pods that break the restricted standard are errors.
func TestManifests(t *testing.T) {
	t.Parallel()
	_, config := newAPIServer(t)
	client := clientOf(t, config)
	createNamespaces(t, client)
	applier, err := manifest.NewApplier(config)
	check.OK(t, err)
	for _, example := range []string{"infra/network.yaml", "infra/openfaas/network.yaml", "infra/gateway/traefik.yaml", "infra/gateway/envoy.yaml"} {
		text, err := os.ReadFile(filepath.Join(root(t), example))
		check.OK(t, err)
		objects, err := manifest.Decode(text)
		check.OK(t, err)
		check.OK(t, applier.Apply(t.Context(), objects))
	}
	for _, set := range sets {
		objects := slices.DeleteFunc(render(t, set), func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Pod" && set != sets[0] // Helm deletes the test pod before it creates it again
		})
		if err := applier.Apply(t.Context(), objects); err != nil {
			t.Errorf("%s:\n%v", set, err)
			continue
		}
		pods := 0
		for _, o := range objects {
			if p := podOf(t, o); p != nil {
				checkAdmitted(t, client, set+" "+o.GetKind()+" "+o.GetName(), p)
				pods++
			}
		}
		if minimum := map[bool]int{true: 6, false: 12}[set == "openfaas"]; pods < minimum {
			t.Errorf("%s: got %d kinds of pods, want at least %d", set, pods, minimum)
		}
	}
	loose := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Name: "a", Image: "a"}}}}
	loose.Name = "loose"
	if _, err := client.CoreV1().Pods(system).Create(t.Context(), loose, meta.CreateOptions{DryRun: []string{"All"}}); !kerrors.IsForbidden(err) {
		t.Errorf("create a pod that may run as root: got %v, want forbidden", err)
	}
}

func createNamespaces(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for name, labels := range map[string]map[string]string{
		system: {"pod-security.kubernetes.io/enforce": "restricted"}, "traefik": nil, "openfaas": nil, "tekton-pipelines": nil, "knative-serving": nil, "kourier-system": nil, "envoy-gateway-system": nil, "shop-prod": nil,
	} {
		n := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}}
		_, err := client.CoreV1().Namespaces().Create(t.Context(), n, meta.CreateOptions{})
		check.OK(t, err)
	}
}

func podOf(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	paths := map[string][]string{
		"apps/Deployment":             {"spec", "template"},
		"serving.knative.dev/Service": {"spec", "template"},
		"batch/CronJob":               {"spec", "jobTemplate", "spec", "template"},
	}
	path, ok := paths[o.GroupVersionKind().Group+"/"+o.GetKind()]
	if !ok {
		return nil
	}
	template, found, err := unstructured.NestedMap(o.Object, path...)
	if err != nil || !found {
		t.Fatalf("%s %s has no template: %v", o.GetKind(), o.GetName(), err)
	}
	p := &unstructured.Unstructured{Object: template}
	unstructured.RemoveNestedField(p.Object, "spec", "containerConcurrency") // a field of Knative only
	unstructured.RemoveNestedField(p.Object, "spec", "timeoutSeconds")
	p.SetAPIVersion("v1")
	p.SetKind("Pod")
	p.SetName("trial")
	p.SetNamespace(system)
	return p
}

// checkAdmitted sends a pod to admission. Like Knative, it sets missing ports of probes.
func checkAdmitted(t *testing.T, client kubernetes.Interface, what string, p *unstructured.Unstructured) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(p.Object, "spec", "containers")
	check.OK(t, err)
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			t.Fatalf("%s: a container is not an object", what)
		}
		for _, probe := range []string{"readinessProbe", "livenessProbe"} {
			get, found, _ := unstructured.NestedMap(container, probe, "httpGet")
			if found && get["port"] == nil {
				_ = unstructured.SetNestedField(container, int64(8080), probe, "httpGet", "port")
			}
		}
	}
	check.OK(t, unstructured.SetNestedSlice(p.Object, containers, "spec", "containers"))
	body, err := p.MarshalJSON()
	check.OK(t, err)
	err = client.CoreV1().RESTClient().Post().Namespace(system).Resource("pods").
		Param("dryRun", "All").Param("fieldValidation", "Strict").Body(body).Do(t.Context()).Error()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestServiceAccounts checks that only functions that call the Kubernetes API have a token.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	callsAPI := map[string]bool{"apps": true, "builds": true, "deploys": true, "webhook": true, "wiring": true}
	programs, err := filepath.Glob(filepath.Join(root(t), "functions/*/cmd/main.go"))
	check.OK(t, err)
	accounts := map[string]bool{}
	for _, o := range render(t, "plain") {
		if o.GetKind() == "ServiceAccount" {
			mounted, _, err := unstructured.NestedBool(o.Object, "automountServiceAccountToken")
			check.OK(t, err)
			accounts[o.GetName()] = mounted
		}
	}
	for _, p := range programs {
		function := filepath.Base(filepath.Dir(filepath.Dir(p)))
		mounted, ok := accounts[function]
		if !ok {
			t.Errorf("%s has no service account", function)
		}
		if mounted != callsAPI[function] {
			t.Errorf("token of %s mounted: got %v, want %v", function, mounted, callsAPI[function])
		}
	}
	for _, set := range []string{"plain", "knative"} {
		for _, o := range render(t, set) {
			p := podOf(t, o)
			if p == nil || p.GetLabels()["sluice.dev/function"] == "ping" {
				continue
			}
			function := p.GetLabels()["sluice.dev/function"]
			account, _, _ := unstructured.NestedString(p.Object, "spec", "serviceAccountName")
			mounted, explicit, _ := unstructured.NestedBool(p.Object, "spec", "automountServiceAccountToken")
			if account != function || (!callsAPI[function] && (mounted || !explicit)) {
				t.Errorf("%s: %s runs as %q, token mounted: %v (explicit: %v)", set, function, account, mounted, explicit)
			}
		}
	}
}
