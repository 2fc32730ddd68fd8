package bench

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// alwaysAllow copies a gated app's route to another host, with url as the forward-auth server.
func alwaysAllow(t *testing.T, site *stacktest.Site, app, url string) (host string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", site.Stack.Info().Kubeconfig)
	check.OK(t, err)
	api, err := dynamic.NewForConfig(config)
	check.OK(t, err)
	namespace := site.Project + "-" + site.Env
	host = "always." + namespace + ".localhost"
	gate := duplicate(t, api, "middlewares", namespace, "sluice-gate-"+app, func(o map[string]any) {
		set(t, o, url, "spec", "forwardAuth", "address")
		set(t, o, map[string]any{"insecureSkipVerify": true}, "spec", "forwardAuth", "tls")
	})
	duplicate(t, api, "ingressroutes", namespace, app, func(o map[string]any) {
		routes, _, err := unstructured.NestedSlice(o, "spec", "routes")
		if err != nil || len(routes) != 3 {
			t.Fatalf("got %d routes of the app, %v, want 3", len(routes), err)
		}
		routes = routes[:1] // without preflights and WebSockets
		route, ok := routes[0].(map[string]any)
		if !ok {
			t.Fatalf("got a route of type %T", routes[0])
		}
		route["match"] = "Host(`" + host + "`)"
		route["middlewares"] = []any{map[string]any{"name": gate}}
		set(t, o, routes, "spec", "routes")
	})
	site.Call("always").Within(30 * time.Second).Gets(200)
	return host
}

func set(t *testing.T, o map[string]any, value any, fields ...string) {
	t.Helper()
	check.OK(t, unstructured.SetNestedField(o, value, fields...))
}

// duplicate copies an object of the app, without labels so that Sluice ignores the copy.
func duplicate(t *testing.T, api dynamic.Interface, kind, namespace, app string, change func(map[string]any)) string {
	t.Helper()
	all := api.Resource(schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: kind}).Namespace(namespace)
	list, err := all.List(t.Context(), metav1.ListOptions{})
	check.OK(t, err)
	for _, o := range list.Items {
		if !strings.Contains(o.GetName(), app) {
			continue
		}
		dup := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "spec": o.Object["spec"]}}
		dup.SetName("always")
		dup.SetNamespace(namespace)
		change(dup.Object)
		if _, err := all.Create(t.Context(), dup, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return dup.GetName()
	}
	t.Fatalf("app %s has no %s", app, kind)
	return ""
}
