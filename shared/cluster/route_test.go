package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

// TestRouteTLS changes the setting. The route must differ, and then get the new value and keep the
// fields of other managers.
func TestRouteTLS(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.place()
	b.gate()
	ask := func(setting string) {
		c, err := Open(Options{Kubeconfig: clustertest.Kubeconfig(t), Routes: &Routes{EntryPoints: []string{"web"}, RouteTLS: setting, CertificateDomain: "localhost"}, CheckerURL: checkerURL})
		b.must(err)
		b.cluster = c
	}
	tls := func() any { return b.objects().route.Object["spec"].(map[string]any)["tls"] }
	others := map[string]any{"options": map[string]any{"name": "strict"}}
	steps := []struct {
		setting string
		want    any
	}{
		{"", nil},
		{"default", map[string]any{"store": map[string]any{"name": "default"}}},
		{"secret:apps-tls", map[string]any{"secretName": "apps-tls"}},
		{"secret:other", map[string]any{"secretName": "other"}},
		{"resolver:le_1", map[string]any{"certResolver": "le_1"}},
		{"default", map[string]any{"store": map[string]any{"name": "default"}}},
		{"resolver:letsEncrypt", map[string]any{"certResolver": "letsEncrypt"}},
		{"", nil},
	}
	for _, step := range steps {
		before := tls()
		ask(step.setting)
		if got, want := b.state().Route == RouteGated, cmp.Equal(before, step.want); got != want {
			t.Errorf("%q on %v: route right: got %v", step.setting, before, got)
		}
		b.gate()
		if diff := cmp.Diff(step.want, tls()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", step.setting, diff)
		}
		if diff := cmp.Diff(gated, b.state()); diff != "" {
			t.Errorf("%q: state (-want +got):\n%s", step.setting, diff)
		}
	}

	b.patchRoute(`[{"op":"add","path":"/spec/tls","value":{"options":{"name":"strict"}}}]`)
	check.Equal(t, "state with spec.tls of others", gated, b.state())
	ask("secret:apps-tls")
	b.gate()
	others["secretName"] = "apps-tls"
	check.Equal(t, "spec.tls with fields of others", any(others), tls())
	for _, patch := range []string{
		`[{"op":"replace","path":"/spec/tls/secretName","value":"evil"}]`,
		`[{"op":"remove","path":"/spec/tls/secretName"}]`,
		`[{"op":"remove","path":"/spec/tls"}]`,
	} {
		b.patchRoute(patch)
		if got := b.state().Route; got != RouteDiffers {
			t.Errorf("after %s: %v", patch, got)
		}
		b.gate()
		if diff := cmp.Diff(gated, b.state()); diff != "" {
			t.Errorf("after %s and repair (-want +got):\n%s", patch, diff)
		}
	}
}

// TestCertificateHosts tests that an ACME resolver gets certificates only for hosts below the
// apps' domain, configured hosts, and hosts whose route had it before.
func TestCertificateHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	resolver, byDefault := map[string]any{"certResolver": "le"}, map[string]any{"store": map[string]any{"name": "default"}}
	open := func(routes Routes) {
		routes.EntryPoints = []string{"web"}
		c, err := Open(Options{Kubeconfig: clustertest.Kubeconfig(t), Routes: &routes, CheckerURL: checkerURL})
		b.must(err)
		b.cluster = c
	}
	of := b.app.Namespace + ".example" // hosts are unique in the tests' shared cluster
	limited := Routes{RouteTLS: "resolver:le", CertificateDomain: "Apps." + of, CertificateHosts: []string{"shop." + of, ".More." + of}}
	open(limited)
	for _, tt := range []struct {
		host string
		want map[string]any
	}{
		{host: "hello.apps." + of, want: resolver},
		{host: "a.hello.apps." + of, want: resolver},
		{host: "shop." + of, want: resolver},
		{host: "x.more." + of, want: resolver},
		{host: "victim." + of, want: byDefault},
		{host: "x.shop." + of, want: byDefault},
		{host: "evilapps." + of, want: byDefault},
		{host: "more." + of, want: byDefault},
	} {
		b.app.Host = tt.host
		b.place()
		b.gate()
		check.Equal(t, tt.host, any(tt.want), b.objects().route.Object["spec"].(map[string]any)["tls"])
		if got := b.state().Route; got != RouteGated {
			t.Errorf("%s: route: got %v", tt.host, got)
		}
	}
	b.app.Host = "victim." + of
	open(Routes{RouteTLS: "resolver:le", CertificateDomain: of})
	b.gate()
	open(limited)
	if got := b.state().Route; got != RouteGated {
		t.Errorf("route with the resolver: got %v", got)
	}
	b.gate()
	check.Equal(t, "spec.tls of a host with a certificate", any(resolver), b.objects().route.Object["spec"].(map[string]any)["tls"])
}

func (b *bench) patchRoute(patch string) {
	b.Helper()
	_, err := b.cluster.objects(traefikKind("IngressRoute"), b.app.Namespace).api.Patch(b.Context(), b.app.Name, types.JSONPatchType,
		[]byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	b.must(err)
}

func TestRouteTLSIsChecked(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"on", "true", "resolver", "resolver:", "resolver:a b", "secret:", "secret:A_b", "secret:../x", "default:x ", "Default", "secret:a:b"} {
		if _, err := Open(Options{Kubeconfig: clustertest.Kubeconfig(t), Routes: &Routes{EntryPoints: []string{"web"}, RouteTLS: s}}); err == nil {
			t.Errorf("%q: got no error", s)
		}
	}
	if _, err := Open(Options{Kubeconfig: clustertest.Kubeconfig(t), Routes: &Routes{EntryPoints: []string{"web"}, RouteTLS: "resolver:le"}}); err == nil {
		t.Error("resolver without a domain: got no error")
	}
}
