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

func (s *site) bypass() {
	s.Helper()
	s.lead("bypass", s.app().Host)
}

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

func TestReachableElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience, s.cfg.ReproveEvery = 2*time.Second, time.Nanosecond // with every resync
	s.service = s.replica()
	s.ready()
	s.lead("side", "side.example.com")
	s.turn(true)
	s.settles(app.Pending, "The app is reachable without the gate at IngressRoute side (Host(`side.example.com`)). Remove this route or put it behind the gate.")
	routes := middlewareKind()
	routes.Resource = "ingressroutes"
	drop := func() {
		s.Helper()
		check.OK(t, s.dynamic.Resource(routes).Namespace(s.ref.Namespace).Delete(t.Context(), "side", metav1.DeleteOptions{}))
	}
	drop()
	s.settles(app.Engaged, "")
	s.lead("side", "side.example.com")
	s.settles(app.Pending, "The app is reachable without the gate at IngressRoute side (Host(`side.example.com`)). Remove this route or put it behind the gate.")
	drop()
	s.settles(app.Engaged, "")
}

func TestAppThatCopiesTheGate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience, s.cfg.ReproveEvery = 2*time.Second, time.Nanosecond
	s.service = s.replica()
	s.ready()
	s.copies.Store(true)
	s.bypass()
	s.within(func() string { // until Traefik has applied it
		if status, _ := s.request(map[string]string{"X-Api-Key": "none"}); status != http.StatusOK {
			return "the route around the gate is not active"
		}
		return ""
	})
	s.turn(true)
	s.settles(app.Pending, string(copied))
	if s.app().Gate.State == app.Engaged {
		t.Error("the gate was engaged by a copy of its denial")
	}
}
