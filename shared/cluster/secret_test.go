package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func unreachable(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"x",
		"clusters":[{"name":"x","cluster":{"server":"http://127.0.0.1:1"}}],
		"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],"users":[{"name":"x","user":{}}]}`
	check.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestOpenRefusesABadConfiguration(t *testing.T) {
	t.Parallel()
	good := Options{Kubeconfig: unreachable(t), Routes: &Routes{EntryPoints: []string{"web"}}, CheckerURL: checkerURL}
	if _, err := Open(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no entry points":                  func(o *Options) { o.Routes = &Routes{} },
		"an unknown kind":                  func(o *Options) { o.Routes = &Routes{Kind: "ingress", EntryPoints: []string{"web"}} },
		"an unknown former kind":           func(o *Options) { o.Routes = &Routes{FormerKind: "ingress", EntryPoints: []string{"web"}} },
		"no Gateway":                       func(o *Options) { o.Routes = &Routes{Kind: GatewayTraefikRoutes} },
		"a Gateway without a namespace":    func(o *Options) { o.Routes = &Routes{Kind: GatewayEnvoyRoutes, Gateway: "apps"} },
		"a Gateway of four parts":          func(o *Options) { o.Routes = &Routes{Kind: GatewayEnvoyRoutes, Gateway: "a/b/c/d"} },
		"a Gateway with an empty listener": func(o *Options) { o.Routes = &Routes{Kind: GatewayEnvoyRoutes, Gateway: "a/b/"} },
		"a checker without TLS":            func(o *Options) { o.CheckerURL = "http://checker:8443" },
		"a checker with a path":            func(o *Options) { o.CheckerURL = "https://checker/x" },
		"a checker with a query":           func(o *Options) { o.CheckerURL = "https://checker?x=1" },
		"a missing kubeconfig":             func(o *Options) { o.Kubeconfig = "/nonexistent/kubeconfig" },
	} {
		o := good
		change(&o)
		if _, err := Open(o); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}

	c, err := Open(Options{Kubeconfig: good.Kubeconfig})
	if err != nil {
		t.Fatalf("without routes: %v", err)
	}
	err = c.ApplyRoute(t.Context(), Objects{}, app.App{Namespace: "shop-prod", Name: "hello", Host: "hello.example.com"}, true)
	if err == nil || !strings.Contains(err.Error(), "kind of routes is not set") {
		t.Errorf("write a route without a kind: got %v", err)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, ns := t.Context(), b.app.Namespace
	b.must(b.cluster.EnsureNamespace(ctx, ns))
	if _, err := b.cluster.Secret(ctx, ns, "s"); !problem.Is(err, problem.NotFound) {
		t.Fatalf("missing Secret: got %v, want not_found", err)
	}
	fresh := Secret{Namespace: ns, Name: "s", Type: OpaqueSecret, Data: map[string][]byte{"k": []byte("hush")}}
	written, err := b.cluster.WriteSecret(ctx, fresh)
	b.must(err)
	if _, err := b.cluster.WriteSecret(ctx, fresh); !problem.Is(err, problem.Conflict) {
		t.Errorf("second creation: got %v, want conflict", err)
	}
	written.Data = map[string][]byte{"k": []byte("hush hush")}
	if _, err = b.cluster.WriteSecret(ctx, written); err != nil {
		t.Fatal(err)
	}
	if _, err := b.cluster.WriteSecret(ctx, written); !problem.Is(err, problem.Conflict) {
		t.Errorf("late write: got %v, want conflict", err)
	}
	got, err := b.cluster.Secret(ctx, ns, "s")
	b.must(err)
	if !got.Managed || !got.Exists() || string(got.Data["k"]) != "hush hush" {
		t.Errorf("read %+v", got.Data)
	}
	if s := got.LogValue().String(); strings.Contains(s, "hush") {
		t.Errorf("LogValue contains the data: %q", s)
	}
	_, err = b.kube.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{})
	b.must(err)
	if theirs, err := b.cluster.Secret(ctx, ns, "theirs"); err != nil || theirs.Managed {
		t.Errorf("foreign Secret: managed %v, %v", theirs.Managed, err)
	}
}
