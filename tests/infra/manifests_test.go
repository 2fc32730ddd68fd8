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

	"github.com/sluicegate/sluice/emulators/definitions"
	"github.com/sluicegate/sluice/emulators/kube"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

// sets are the standard sets of values.
var sets = []string{"plain", "local", "openfaas", "knative"}

// render gives what the chart makes of a standard set of values.
func render(t *testing.T, set string) []*unstructured.Unstructured {
	t.Helper()
	all, err := manifest.Chart(root(t), "--values", filepath.Join(root(t), "infra", "chart", "values", set+".yaml"))
	check.OK(t, err)
	return all
}

// blank starts an API server as a cluster is before Sluice is installed: with what the
// prerequisites define. Its Secrets are encrypted as infra/encryption says.
func blank(t *testing.T) (kubeconfig string, config *rest.Config) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "infra/encryption/encryption-configuration.yaml"))
	check.OK(t, err)
	key := make([]byte, 32)
	rand.Read(key)
	encryption := strings.Replace(string(text), "REPLACE-WITH-32-RANDOM-BYTES-IN-BASE64", base64.StdEncoding.EncodeToString(key), 1)
	server, config := clustertest.Start(t, kube.Options{Root: root(t), Encryption: []byte(encryption)})
	config.QPS, config.Burst = -1, 0 // as fast as it goes
	client, err := dynamic.NewForConfig(config)
	check.OK(t, err)
	sets := []definitions.Set{definitions.Traefik(), definitions.Serving(), definitions.Eventing(), definitions.Tekton(), definitions.Gateway(), definitions.EnvoyGateway()}
	check.OK(t, definitions.Define(t.Context(), root(t), client, sets...))
	return server.Kubeconfig, config
}

// TestManifests applies the examples of infra, and what the chart makes of each standard set
// of values, whole, one after the other, as somebody who moves from one to the next would; a field that a kind
// does not have fails. Every pod that they lead to is let in by the namespace's pod security
// standard.
func TestManifests(t *testing.T) {
	t.Parallel()
	_, config := blank(t)
	client := clientOf(t, config)
	namespaces(t, client)
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
			return o.GetKind() == "Pod" && set != sets[0] // the chart's test: Helm deletes a pod before it makes it anew
		})
		if err := applier.Apply(t.Context(), objects); err != nil {
			t.Errorf("%s:\n%v", set, err)
			continue
		}
		pods := 0
		for _, o := range objects {
			if p := podOf(t, o); p != nil {
				admitted(t, client, set+" "+o.GetKind()+" "+o.GetName(), p)
				pods++
			}
		}
		if least := map[bool]int{true: 6, false: 12}[set == "openfaas"]; pods < least {
			t.Errorf("%s has %d kinds of pods, want %d at least", set, pods, least)
		}
	}
	loose := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Name: "a", Image: "a"}}}}
	loose.Name = "loose"
	if _, err := client.CoreV1().Pods(system).Create(t.Context(), loose, meta.CreateOptions{DryRun: []string{"All"}}); !kerrors.IsForbidden(err) {
		t.Errorf("a pod that may run as root is let in: %v", err)
	}
}

// namespaces makes those that are there before Sluice is installed.
func namespaces(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for name, labels := range map[string]map[string]string{
		system: {"pod-security.kubernetes.io/enforce": "restricted"}, "traefik": nil, "openfaas": nil, "tekton-pipelines": nil, "knative-serving": nil, "kourier-system": nil, "envoy-gateway-system": nil, "shop-prod": nil,
	} {
		n := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}}
		_, err := client.CoreV1().Namespaces().Create(t.Context(), n, meta.CreateOptions{})
		check.OK(t, err)
	}
}

// podOf is the pod that an object leads to, nil without one.
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
	unstructured.RemoveNestedField(p.Object, "spec", "containerConcurrency") // Knative's own
	unstructured.RemoveNestedField(p.Object, "spec", "timeoutSeconds")
	p.SetAPIVersion("v1")
	p.SetKind("Pod")
	p.SetName("trial")
	p.SetNamespace(system)
	return p
}

// admitted has the API server's admission look at a pod. Knative fills in what a pod
// must say and a template need not: a container's probe has no port.
func admitted(t *testing.T, client kubernetes.Interface, what string, p *unstructured.Unstructured) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(p.Object, "spec", "containers")
	check.OK(t, err)
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			t.Fatalf("%s: a container is no object", what)
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

// TestAccounts: every function has an account, and only those that speak to the
// Kubernetes API have a token for it.
func TestAccounts(t *testing.T) {
	t.Parallel()
	speaks := map[string]bool{"apps": true, "builds": true, "deploys": true, "webhook": true, "wiring": true}
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
		if mounted != speaks[function] {
			t.Errorf("token of %s mounted: %v", function, mounted)
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
			mounted, said, _ := unstructured.NestedBool(p.Object, "spec", "automountServiceAccountToken")
			if account != function || (!speaks[function] && (mounted || !said)) {
				t.Errorf("%s: %s runs as %q, token mounted: %v (said: %v)", set, function, account, mounted, said)
			}
		}
	}
}
