package infra

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/tests/check"
)

var update = flag.Bool("update", false, "update the golden files in testdata")

// TestGolden compares the chart with the golden files; -update rewrites them. It omits the random
// data of Secrets.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"knative", "plain"} {
		var out strings.Builder
		seen := map[string]bool{}
		for _, o := range render(t, set) {
			name := fmt.Sprint(o.GroupVersionKind(), " ", o.GetNamespace(), "/", o.GetName())
			if seen[name] {
				t.Errorf("%s: duplicate %s", set, name)
			}
			seen[name] = true
			if o.GetKind() == "Secret" {
				unstructured.RemoveNestedField(o.Object, "data")
			}
			text, err := yaml.Marshal(o.Object)
			check.OK(t, err)
			out.WriteString("---\n" + string(text))
		}
		file := filepath.Join("testdata", set+".yaml")
		if *update {
			check.OK(t, os.WriteFile(file, []byte(out.String()), 0o600))
		}
		want, err := os.ReadFile(file)
		check.OK(t, err)
		if diff := cmp.Diff(string(want), out.String()); diff != "" {
			t.Errorf("%s (-golden file +chart):\n%s", set, diff)
		}
	}
}

// TestChartMatchesHelm compares manifest.Chart with "helm template", except the random data of
// Secrets.
func TestChartMatchesHelm(t *testing.T) {
	t.Parallel()
	clear := func(all []*unstructured.Unstructured) (objects []map[string]any) {
		for _, o := range all {
			if data, ok, _ := unstructured.NestedMap(o.Object, "data"); ok && o.GetKind() == "Secret" {
				o.Object["data"] = slices.Sorted(maps.Keys(data))
			}
			objects = append(objects, o.Object)
		}
		return objects
	}
	for _, set := range sets {
		args := []string{"--values", filepath.Join(root(t), "infra", "chart", "values", set+".yaml"), "--set", "monitoring.enabled=true"}
		got, err := manifest.Chart(root(t), args...)
		check.OK(t, err)
		template := []string{"template", "sluice", filepath.Join(root(t), "infra", "chart"), "--namespace", manifest.Namespace}
		out, err := manifest.RunHelm(t.Context(), root(t), append(template, args...)...)
		check.OK(t, err)
		want, err := manifest.Decode(out)
		check.OK(t, err)
		if diff := cmp.Diff(clear(want), clear(got)); diff != "" {
			t.Errorf("%s (-helm +manifest.Chart):\n%s", set, diff)
		}
	}
}

func TestMonitoring(t *testing.T) {
	t.Parallel()
	values := filepath.Join(root(t), "infra", "chart", "values", "plain.yaml")
	all, err := manifest.Chart(root(t), "--values", values, "--set", "monitoring.enabled=true")
	check.OK(t, err)
	rules := manifest.OfKinds(all, "PrometheusRule")
	if len(rules) != 1 || len(manifest.OfKinds(all, "PodMonitor")) != 1 {
		t.Fatalf("PrometheusRules: got %d, want 1, with one PodMonitor", len(rules))
	}
	var file struct {
		Groups any `json:"groups"`
	}
	text, err := os.ReadFile(filepath.Join(root(t), "infra", "chart", "monitoring", "rules.yaml"))
	check.OK(t, err)
	check.OK(t, yaml.Unmarshal(text, &file))
	groups, _, err := unstructured.NestedFieldNoCopy(rules[0].Object, "spec", "groups")
	check.OK(t, err)
	if diff := cmp.Diff(file.Groups, groups); diff != "" {
		t.Errorf("rules (-file +chart):\n%s", diff)
	}
}

func TestTracing(t *testing.T) {
	t.Parallel()
	values := filepath.Join(root(t), "infra", "chart", "values", "plain.yaml")
	for enabled, args := range map[bool][]string{false: nil, true: {
		"--set", "tracing.endpoint=https://collector.example.com:4318", "--set", "tracing.headersSecret.name=otlp", "--set", "tracing.namespace=observability",
	}} {
		all, err := manifest.Chart(root(t), append([]string{"--values", values}, args...)...)
		check.OK(t, err)
		endpoints, headers, rules := 0, 0, 0
		for _, o := range manifest.OfKinds(all, "ConfigMap", "Deployment", "NetworkPolicy") {
			text, err := yaml.Marshal(o.Object)
			check.OK(t, err)
			endpoints += strings.Count(string(text), "OTEL_EXPORTER_OTLP_ENDPOINT: https://collector.example.com:4318\n")
			headers += strings.Count(string(text), "- name: OTEL_EXPORTER_OTLP_HEADERS\n          valueFrom:\n            secretKeyRef:\n              key: headers\n              name: otlp\n")
			rules += strings.Count(string(text), "- ports:\n    - port: 4318\n    to:\n    - namespaceSelector:\n        matchLabels:\n          kubernetes.io/metadata.name: observability\n")
			if !enabled && strings.Contains(string(text), "OTEL_") {
				t.Errorf("tracing disabled: %s %s has settings of OpenTelemetry", o.GetKind(), o.GetName())
			}
		}
		want := 0
		if enabled {
			want = 11 // ten functions and the checkers
		}
		if (endpoints == 1) != enabled || headers != want || rules != want {
			t.Errorf("tracing enabled: %v: got %d endpoints, %d with headers, %d network rules", enabled, endpoints, headers, rules)
		}
	}
}

func TestBadValues(t *testing.T) {
	t.Parallel()
	values := filepath.Join(root(t), "infra", "chart", "values", "plain.yaml")
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"no host":                 {[]string{"--set", "host=null"}, []string{"'/host'", "got null, want string"}},
		"no project":              {[]string{"--set", "firestore.project=null"}, []string{"'/firestore/project'", "got null, want string"}},
		"no domain":               {[]string{"--set", "apps.domain=null"}, []string{"'/apps/domain'", "got null, want string"}},
		"unknown runtime":         {[]string{"--set", "runtime=lambda"}, []string{"'/runtime'", "'knative', 'plain', 'openfaas'"}},
		"one checker":             {[]string{"--set", "checker.replicas=1"}, []string{"'/checker/replicas'", "got 1, want 2"}},
		"a URL as host":           {[]string{"--set", "host=https://sluice.example.com"}, []string{"'/host'", "does not match pattern"}},
		"unknown value":           {[]string{"--set", "replicas=3"}, []string{"additional properties 'replicas' not allowed"}},
		"unknown function":        {[]string{"--set", "functions.gateway.replicas=3"}, []string{"functions.gateway: unknown function"}},
		"another namespace":       {[]string{"--namespace", "default"}, []string{"installed in the namespace sluice-system"}},
		"nowhere to push to":      {[]string{"--set", "apps.imagePrefix="}, []string{"apps.imagePrefix is required for builds"}},
		"extra host is domain":    {[]string{"--set", "extraHosts={apps.example.com}"}, []string{"extraHosts: apps.example.com is apps.domain or above it"}},
		"extra host above domain": {[]string{"--set", "extraHosts={example.com}"}, []string{"extraHosts: example.com is apps.domain or above it"}},
		"host is domain":          {[]string{"--set", "host=apps.example.com"}, []string{"host and apps.domain are the same"}},
		"a password in it":        {[]string{"--set", "tracing.endpoint=https://me:secret@collector"}, []string{"'/tracing/endpoint'"}},
		"too much of it":          {[]string{"--set-string", "tracing.ratio=2"}, []string{"'/tracing/ratio'"}},
		"no Gateway":              {[]string{"--set", "ingress.routes=gateway-traefik"}, []string{"ingress.gateway is required for Gateway API routes"}},
		"no former Gateway":       {[]string{"--set", "ingress.formerRoutes=gateway-envoy"}, []string{"ingress.gateway is required for Gateway API routes"}},
		"no such routes":          {[]string{"--set", "ingress.routes=nginx"}, []string{"'/ingress/routes'", "'traefik', 'gateway-traefik', 'gateway-envoy'"}},
		"a short token":           {[]string{"--set", "secrets.buildsToken=abc"}, []string{"'/secrets/buildsToken'"}},
		"no proxies":              {[]string{"--set", "runtime=knative"}, []string{"proxies is required: list the trusted pods between the ingress and the functions"}},
		"unknown ingress":         {[]string{"--set", "ingress.url=http://10.0.0.1"}, []string{"trustedProxies must list the ingress"}},
		"a URL as proxy":          {[]string{"--set", "trustedProxies={http://10.0.0.1}"}, []string{"'/trustedProxies/0'"}},
	} {
		template := []string{"template", "sluice", filepath.Join(root(t), "infra", "chart"), "--namespace", manifest.Namespace, "--values", values}
		_, err := manifest.RunHelm(t.Context(), root(t), append(template, c.args...)...)
		for _, says := range c.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: got %v\nwant %q", name, err, says)
			}
		}
	}
}

func TestExtraHosts(t *testing.T) {
	t.Parallel()
	values := filepath.Join(root(t), "infra", "chart", "values", "plain.yaml")
	all, err := manifest.Chart(root(t), "--values", values, "--set", "extraHosts={a.example.net,b.example.net}", "--set", "certificateHosts={shop.example.org,.example.net}")
	check.OK(t, err)
	for _, o := range manifest.OfKinds(all, "ConfigMap") {
		settings, _, err := unstructured.NestedStringMap(o.Object, "data")
		check.OK(t, err)
		if got := settings["EXTRA_HOSTS"]; o.GetName() == "sluice-settings" && got != "a.example.net,b.example.net" {
			t.Errorf("EXTRA_HOSTS: got %q, want a.example.net,b.example.net", got)
		}
		if got := settings["CERTIFICATE_HOSTS"]; o.GetName() == "sluice-settings" && got != "shop.example.org,.example.net" {
			t.Errorf("CERTIFICATE_HOSTS: got %q, want shop.example.org,.example.net", got)
		}
	}
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	const ingress, activator, gateway = "sluice-ingress.traefik.svc.cluster.local", "sluice-proxies-0.knative-serving.svc.cluster.local", "sluice-proxies-1.kourier-system.svc.cluster.local"
	for set, want := range map[string]string{
		"plain":    ingress + ",192.0.2.0/24",
		"knative":  ingress + "," + activator + "," + gateway + ",127.0.0.0/8,::1/128,192.0.2.0/24",
		"openfaas": ingress + ",sluice-proxies-0.openfaas.svc.cluster.local,192.0.2.0/24",
	} {
		all, err := manifest.Chart(root(t), "--values", filepath.Join(root(t), "infra", "chart", "values", set+".yaml"), "--set", "trustedProxies={192.0.2.0/24}")
		check.OK(t, err)
		headless := map[string]bool{}
		for _, o := range manifest.OfKinds(all, "Service") {
			address, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP")
			headless[o.GetName()+"."+o.GetNamespace()+".svc.cluster.local"] = address == "None"
		}
		for _, o := range manifest.OfKinds(all, "ConfigMap") {
			settings, _, err := unstructured.NestedStringMap(o.Object, "data")
			check.OK(t, err)
			got := settings["TRUSTED_PROXIES"]
			if o.GetName() == "sluice-settings" && got != want {
				t.Errorf("%s: got %q, want %q", set, got, want)
			}
			for name := range strings.SplitSeq(got, ",") {
				if strings.HasSuffix(name, ".local") && !headless[name] {
					t.Errorf("%s: no headless Service %s", set, name)
				}
			}
		}
	}
}

// TestRouteKinds checks the rights on routes: of the current kind and, during a migration, of the
// previous one.
func TestRouteKinds(t *testing.T) {
	t.Parallel()
	values := filepath.Join(root(t), "infra", "chart", "values", "plain.yaml")
	for _, c := range []struct {
		routes, previous cluster.RouteKind
		writes           []string
	}{
		{cluster.TraefikRoutes, "", []string{"ingressroutes.traefik.io", "middlewares.traefik.io"}},
		{cluster.GatewayTraefikRoutes, "", []string{"httproutes.gateway.networking.k8s.io", "middlewares.traefik.io"}},
		{cluster.GatewayEnvoyRoutes, "", []string{"backends.gateway.envoyproxy.io", "httproutes.gateway.networking.k8s.io", "securitypolicies.gateway.envoyproxy.io"}},
		{cluster.GatewayTraefikRoutes, cluster.TraefikRoutes, []string{"httproutes.gateway.networking.k8s.io", "ingressroutes.traefik.io", "middlewares.traefik.io"}},
		{cluster.TraefikRoutes, cluster.GatewayEnvoyRoutes, []string{
			"backends.gateway.envoyproxy.io", "httproutes.gateway.networking.k8s.io", "ingressroutes.traefik.io", "middlewares.traefik.io", "securitypolicies.gateway.envoyproxy.io",
		}},
	} {
		name := string(c.routes) + " after " + string(c.previous)
		all, err := manifest.Chart(root(t), "--values", values, "--set", "ingress.gateway=traefik/apps",
			"--set", "ingress.routes="+string(c.routes), "--set", "ingress.formerRoutes="+string(c.previous))
		check.OK(t, err)
		for _, o := range manifest.OfKinds(all, "ConfigMap") {
			settings, _, err := unstructured.NestedStringMap(o.Object, "data")
			check.OK(t, err)
			if o.GetName() == "sluice-settings" && (settings["ROUTES"] != string(c.routes) || settings["FORMER_ROUTES"] != string(c.previous) || settings["GATEWAY"] != "traefik/apps") {
				t.Errorf("%s: got the settings %v", name, settings)
			}
		}
		for _, function := range []string{"apps", "wiring"} {
			role := "sluice-" + function
			if got := routeRights(t, all, role+"-environment", "delete"); !slices.Equal(got, c.writes) {
				t.Errorf("%s: %s may delete %v, want %v", name, function, got, c.writes)
			}
			if got := routeRights(t, all, role, "get"); !slices.Equal(got, c.writes) {
				t.Errorf("%s: %s may get %v, want %v", name, function, got, c.writes)
			}
		}
	}
}

func routeRights(t *testing.T, all []*unstructured.Unstructured, role, verb string) (kinds []string) {
	t.Helper()
	for _, o := range manifest.OfKinds(all, "ClusterRole") {
		if o.GetName() != role {
			continue
		}
		var is rbac.ClusterRole
		check.OK(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &is))
		for _, r := range is.Rules {
			for _, resource := range r.Resources {
				if kind := resource + "." + r.APIGroups[0]; slices.Contains(r.Verbs, verb) && (strings.Contains(kind, "gateway") || strings.Contains(kind, "traefik")) {
					kinds = append(kinds, kind)
				}
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestInstall checks that upgrades and reinstallations keep the generated Secrets, and that an
// uninstall keeps the webhooks' namespace.
func TestInstall(t *testing.T) {
	t.Parallel()
	kubeconfig, config := newAPIServer(t)
	client := clientOf(t, config)
	createNamespaces(t, client)
	dir := filepath.Join(root(t), "infra", "chart")
	helm := func(args ...string) {
		t.Helper()
		_, err := manifest.RunHelm(t.Context(), root(t), append(args, "--namespace", system, "--kubeconfig", kubeconfig)...)
		check.OK(t, err)
	}
	values := filepath.Join(dir, "values", "knative.yaml")
	helm("install", "sluice", dir, "--values", values)
	generated := secrets(t, client)
	if got := slices.Sorted(maps.Keys(generated)); !slices.Equal(got, []string{"sluice-admin", "sluice-builds-token", "sluice-console-token", "sluice-session-keys", "sluice-session-public-keys"}) {
		t.Errorf("generated Secrets: got %v", got)
	}
	checkSessionKeys(t, generated)
	unchanged := func(when string) {
		t.Helper()
		if diff := cmp.Diff(generated, secrets(t, client)); diff != "" {
			t.Errorf("Secrets after %s (-before +after):\n%s", when, diff)
		}
	}
	helm("upgrade", "sluice", dir, "--values", values, "--set", "checker.replicas=3")
	unchanged("an upgrade")
	helm("uninstall", "sluice")
	unchanged("an uninstall")
	if left, err := client.AppsV1().Deployments(system).List(t.Context(), meta.ListOptions{}); err != nil || len(left.Items) > 0 {
		t.Errorf("Deployments after an uninstall: got %d, %v, want 0", len(left.Items), err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), webhooks, meta.GetOptions{}); err != nil {
		t.Errorf("namespace of the webhooks after an uninstall: %v", err)
	}
	helm("install", "sluice", dir, "--values", values)
	unchanged("a reinstallation")
}

func secrets(t *testing.T, client kubernetes.Interface) map[string]map[string][]byte {
	t.Helper()
	list, err := client.CoreV1().Secrets(system).List(t.Context(), meta.ListOptions{FieldSelector: "type=" + string(core.SecretTypeOpaque)})
	check.OK(t, err)
	all := map[string]map[string][]byte{}
	for _, s := range list.Items {
		all[s.Name] = s.Data
	}
	return all
}

func checkSessionKeys(t *testing.T, generated map[string]map[string][]byte) {
	t.Helper()
	dir := func(secret string) string {
		dir := t.TempDir()
		for name, content := range generated[secret] {
			check.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		return dir
	}
	private, err := identity.OpenKeyring(dir("sluice-session-keys"))
	check.OK(t, err)
	public, err := identity.OpenKeyring(dir("sluice-session-public-keys"))
	check.OK(t, err)
	signed, err := private.SignDevice(identity.NewDevice("admin"))
	check.OK(t, err)
	if _, err := public.VerifyDevice(signed); err != nil {
		t.Errorf("verify with the public key: %v", err)
	}
}
