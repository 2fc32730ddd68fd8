package infra

import (
	"net/http"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func image(tag string) string { return "registry.example/echo:" + tag }

// knativeService creates a Knative Service as an app owner would.
func (l life) knativeService(t *testing.T, name, tag string) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"sluice.dev/adopt": "true"}},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"autoscaling.knative.dev/min-scale": "0"}},
			"spec": map[string]any{
				"containerConcurrency": int64(10),
				"containers":           []any{map[string]any{"image": image(tag), "ports": []any{map[string]any{"containerPort": int64(8080)}}}},
			},
		}},
	}}
	services := schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
	_, err := l.dynamic.Resource(services).Namespace(l.namespace).Create(t.Context(), u, meta.CreateOptions{FieldValidation: "Strict"})
	check.OK(t, err)
}

// scaled covers an app that runs on Knative from the start.
func (l life) scaled(t *testing.T) {
	t.Helper()
	const app = "scaled"
	ctx, c := t.Context(), l.s.Client
	l.knativeService(t, app, "v0")
	name, first := app, image("v1")
	_, err := c.CreateApp(ctx, l.s.Project, l.s.Env, wire.CreateApp{Name: &name, Image: &first})
	check.OK(t, err)
	e := l.s.Runs(app, first)
	if host := e.Headers["Host"]; len(host) != 1 || host[0] != app+"."+l.namespace+".svc.cluster.local" {
		t.Errorf("Host: got %q, want the cluster-local host", host)
	}
	if public := e.Headers["X-Forwarded-Host"]; len(public) != 1 || public[0] != l.s.Host(app) {
		t.Errorf("X-Forwarded-Host: got %q, want %q", public, l.s.Host(app))
	}
	l.s.Settled(app, 1, "live")
	l.deploy(t, app, "v2")
	l.s.Settled(app, 2, "live")
	l.deploy(t, app, "broken")
	if d := l.s.Settled(app, 3, "failed"); !strings.Contains(string(d.Message), "made no progress") {
		t.Errorf("message: got %q, want made no progress", d.Message)
	}
	l.s.Runs(app, image("v2"))
	back, err := c.Rollback(ctx, l.s.Project, l.s.Env, app, 1)
	check.OK(t, err)
	l.s.Settled(app, back.Revision, "live")
	l.s.Runs(app, image("v1"))
	if status := l.s.AtKnative(app); status != http.StatusOK {
		t.Errorf("ungated app at Knative's gateway: got %d, want 200", status)
	}
	l.s.Gate(app)
	l.s.Call(app).Gets(http.StatusUnauthorized, "invalid_key")
	if status := l.s.AtKnative(app); status != http.StatusNotFound {
		t.Errorf("gated app at Knative's gateway: got %d, want 404", status)
	}
	key := l.s.AnyKey()
	l.s.Opens(app, key)
	e = l.s.Echo(l.s.Call(app).Key(key).Header("X-Service-Key-Prefix", "forged").Gets(http.StatusOK))
	if prefix := e.Headers["X-Service-Key-Prefix"]; len(prefix) != 1 || prefix[0] != key.Prefix || e.Headers["X-Api-Key"] != nil {
		t.Errorf("headers at the app: got %v, want only the prefix of the key", e.Headers)
	}
	if _, err := l.client.AppsV1().Deployments(l.namespace).Get(ctx, app, meta.GetOptions{}); !kerrors.IsNotFound(err) {
		t.Errorf("Deployment next to the Knative Service: got %v, want not found", err)
	}
}

// moved covers an app that moves from a Deployment to Knative.
func (l life) moved(t *testing.T) {
	t.Helper()
	const app = "moved"
	l.s.App(app)
	l.s.Gate(app)
	key := l.s.AnyKey()
	l.s.Opens(app, key)
	l.knativeService(t, app, "v1")
	l.s.Until("be routed to Knative", func() bool {
		a := l.s.Call(app).Key(key).Send()
		return a.Status == http.StatusOK && strings.HasSuffix(l.s.Echo(a).Headers["Host"][0], ".svc.cluster.local")
	})
	if _, err := l.client.AppsV1().Deployments(l.namespace).Get(t.Context(), app, meta.GetOptions{}); !kerrors.IsNotFound(err) {
		t.Errorf("Deployment: got %v, want not found", err)
	}
	l.s.Call(app).Gets(http.StatusUnauthorized, "invalid_key")
	l.deploy(t, app, "v2")
	l.s.Settled(app, 2, "live")
	if e := l.s.Echo(l.s.Call(app).Key(key).Gets(http.StatusOK)); e.Image != image("v2") {
		t.Errorf("got image %s, want %s", e.Image, image("v2"))
	}
}

func (l life) deploy(t *testing.T, app, tag string) {
	t.Helper()
	_, err := l.s.Client.Deploy(t.Context(), l.s.Project, l.s.Env, app, image(tag))
	check.OK(t, err)
}
