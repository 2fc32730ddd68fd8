package workloads_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/tests/check"
)

// TestKnative checks the Service, the status, and which gateway serves it.
func TestKnative(t *testing.T) {
	t.Parallel()
	config, client := server(t)
	dyn, err := dynamic.NewForConfig(config)
	check.OK(t, err)
	check.OK(t, crds.Define(t.Context(), filepath.Join("..", ".."), dyn, crds.Serving()))
	c := cluster{Interface: client, config: config}
	c.namespace(t, "shop-prod")
	run(t, config)
	kind := schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
	services := dyn.Resource(kind).Namespace("shop-prod")
	_, err = services.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service",
		"metadata": map[string]any{"name": "third", "labels": map[string]any{"team": "shop", "app.kubernetes.io/managed-by": "sluice"}},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"image": "registry.example/hello:v1"}},
		}}},
	}}, meta.CreateOptions{})
	check.OK(t, err)
	waitReady := func(host string) {
		t.Helper()
		check.Eventually(t, "be ready as "+host, timeout, func() error {
			s, err := services.Get(t.Context(), "third", meta.GetOptions{})
			if err != nil {
				return err
			}
			url, _, _ := unstructured.NestedString(s.Object, "status", "url")
			ready, _, _ := unstructured.NestedString(s.Object, "status", "latestReadyRevisionName")
			if url != "http://"+host || ready == "" {
				return fmt.Errorf("url %q, ready revision %q", url, ready)
			}
			return nil
		})
	}
	const public, local = "third.shop-prod.knative.example.com", "third.shop-prod.svc.cluster.local"
	waitReady(public)
	c.reaches(t, "knative-ingress-gateway", public, http.StatusOK)
	c.reaches(t, "knative-ingress-gateway", local, http.StatusNotFound)
	c.reaches(t, "knative-local-gateway", local, http.StatusOK)

	patch := []byte(`{"metadata":{"labels":{"networking.knative.dev/visibility":"cluster-local"}}}`)
	if _, err := services.Patch(t.Context(), "third", types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitReady(local)
	c.reaches(t, "knative-ingress-gateway", public, http.StatusNotFound)
	c.reaches(t, "knative-local-gateway", local, http.StatusOK)

	s, err := client.CoreV1().Services("shop-prod").Get(t.Context(), "third", meta.GetOptions{})
	check.OK(t, err)
	want := map[string]string{
		"team": "shop", "app.kubernetes.io/managed-by": "sluice",
		"serving.knative.dev/service": "third", "serving.knative.dev/route": "third",
	}
	check.Equal(t, "labels of the Kubernetes Service", want, s.Labels)
	if owner := meta.GetControllerOf(s); owner == nil || owner.APIVersion != "serving.knative.dev/v1" || owner.Kind != "Route" {
		t.Errorf("got owner %v, want a Route of Knative", owner)
	}
	if s.Spec.Type != core.ServiceTypeExternalName {
		t.Errorf("got type %s, want ExternalName", s.Spec.Type)
	}
}

func (c cluster) reaches(t *testing.T, gateway, host string, want int) {
	t.Helper()
	s, err := c.CoreV1().Services("knative-serving").Get(t.Context(), gateway, meta.GetOptions{})
	check.OK(t, err)
	got, err := statusOf(t.Context(), s.Spec.ClusterIP, host)
	if err != nil || got != want {
		t.Errorf("%s of %s: got status %d, %v, want %d", host, gateway, got, err, want)
	}
}

func statusOf(ctx context.Context, address, host string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+":8080/", http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Host = host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
