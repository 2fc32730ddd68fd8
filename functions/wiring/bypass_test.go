package wiring

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/tests/check"
)

func middlewareKind() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "middlewares"}
}

func listAll() metav1.ListOptions { return metav1.ListOptions{} }

// bypass makes a route for the app's host that goes around its gate.
func (s *site) bypass() {
	s.Helper()
	s.lead("bypass", s.app().Host)
}

// lead makes a route from a host to the app, without its gate.
func (s *site) lead(name, host string) {
	s.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "traefik.io/v1alpha1", "kind": "IngressRoute",
		"spec": map[string]any{"entryPoints": []any{"web"}, "routes": []any{map[string]any{
			"kind": "Rule", "match": "Host(`" + host + "`)", "priority": int64(10000),
			"services": []any{map[string]any{"name": "hello", "port": int64(8080), "nativeLB": true}},
		}}},
	}}
	u.SetName(name)
	kind := middlewareKind()
	kind.Resource = "ingressroutes"
	if _, err := s.dynamic.Resource(kind).Namespace(s.ref.Namespace).Create(s.Context(), u, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// TestReachableElsewhere: a gate that answers at the app's own host, but that another
// route goes around, is not called engaged, and says where.
func TestReachableElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience, s.cfg.ReproveEvery = 2*time.Second, time.Nanosecond // with every tick
	s.service = s.replica()
	s.ready()
	s.lead("side", "side.example.com")
	s.turn(true)
	s.settles(app.Pending, "The app is reachable without the gate at IngressRoute side (Host(`side.example.com`)).")
	routes := middlewareKind()
	routes.Resource = "ingressroutes"
	drop := func() {
		s.Helper()
		check.OK(t, s.dynamic.Resource(routes).Namespace(s.ref.Namespace).Delete(t.Context(), "side", metav1.DeleteOptions{}))
	}
	drop()
	s.settles(app.Engaged, "")
	s.lead("side", "side.example.com")
	s.settles(app.Pending, "The app is reachable without the gate at IngressRoute side (Host(`side.example.com`)).")
	drop()
	s.settles(app.Engaged, "")
}

// TestAppThatCopiesTheGate: an app that answers wiring's question with the gate's denial,
// on a route around its gate, is not taken for gated.
func TestAppThatCopiesTheGate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience, s.cfg.ReproveEvery = 2*time.Second, time.Nanosecond
	s.service = s.replica()
	s.ready()
	s.copies.Store(true)
	s.bypass()
	s.within(func() string { // Traefik has taken it up
		if status, _ := s.request(map[string]string{"X-Api-Key": "none"}); status != http.StatusOK {
			return "the way around the gate is not there"
		}
		return ""
	})
	s.turn(true)
	s.settles(app.Pending, string(copied))
	if s.app().Gate.State == app.Engaged {
		t.Error("a copy of the gate's denial is taken for the gate")
	}
}
