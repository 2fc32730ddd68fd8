package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestWaysAroundTheGate(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "other routes to a gated app: Knative's gateway, a Knative domain, another route, an Ingress, a NodePort",
		"Knative's gateway stops serving the app; with another route the gate is not engaged and names it")
	s := stacktest.New(t, world)
	c := clusterOf(t, s)
	s.App("other")
	c.create(t, "services.v1.serving.knative.dev", "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: third, annotations: {sluice.dev/adopt: 'true'}}, spec: {template: {spec: {containers: [{image: '"+stacktest.Image+"'}]}}}}")
	name, image := "third", stacktest.Image
	if _, err := s.Client.CreateApp(t.Context(), s.Project, s.Env, wire.CreateApp{Name: &name, Image: &image}); err != nil {
		t.Fatal(err)
	}
	s.Runs("third", stacktest.Image)
	if status := s.AtKnative("third"); status != http.StatusOK {
		t.Errorf("Knative's gateway before the gate: got %d, want %d", status, http.StatusOK)
	}
	s.Gate("third")
	if status := s.AtKnative("third"); status != http.StatusNotFound {
		t.Errorf("Knative's gateway with an engaged gate: got %d, want %d", status, http.StatusNotFound)
	}
	s.Call("third").Gets(http.StatusUnauthorized, "invalid_key")

	ways := []struct{ kind, text, address string }{
		{"domainmappings.v1beta1.serving.knative.dev", "{apiVersion: serving.knative.dev/v1beta1, kind: DomainMapping, metadata: {name: around.example}, spec: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: third}}}", "http://around.example"},
		{"ingressroutes.v1alpha1.traefik.io", "{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: around.example}, spec: {routes: [{kind: Rule, match: 'Host(`around.example`)', services: [{name: other, port: 8080}]}]}}", "IngressRoute around.example"},
		{"ingresses.v1.networking.k8s.io", "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: around.example}, spec: {rules: [{host: around.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: other, port: {number: 8080}}}}]}}]}}", "Ingress around.example"},
		{"services.v1.", "{apiVersion: v1, kind: Service, metadata: {name: around}, spec: {type: NodePort, selector: {sluice.dev/app: other}, ports: [{port: 80}]}}", "Service around (NodePort)"},
	}
	for _, way := range ways {
		app := "other"
		if strings.Contains(way.address, "http://") {
			app = "third"
		}
		remove := c.create(t, way.kind, way.text)
		c.regate(t, app)
		s.Until("report the route "+way.address, func() bool {
			a, err := s.Client.App(t.Context(), s.Project, s.Env, app)
			check.OK(t, err)
			if a.Gate.State == "engaged" {
				t.Errorf("the gate is engaged despite %s", way.address)
				return true
			}
			return strings.Contains(a.Gate.Message, "reachable without the gate at "+way.address)
		})
		remove()
		s.WaitGate(app, "engaged")
	}
	row.Measured(fmt.Sprintf("%d", 1+len(ways)))
}

func TestProofIsNoOracle(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "nonces from unauthenticated clients: valid, malformed, too long; client-sent proofs",
		"the usual 401, with a proof only for a valid nonce")
	s, k := gated(t)
	plain := s.Call("hello").Send()
	good, n := checkers.NewNonce(), 0
	for _, nonce := range []string{good, good[1:], strings.ToLower(good), strings.Repeat("A", 8000), "", "é"} {
		for _, key := range []string{"", k.Full + "x"} {
			n++
			call := s.Call("hello").Header(checkers.NonceHeader, nonce).Header(checkers.ProofHeader, strings.Repeat("0", 64))
			if key != "" {
				call = call.Header("X-API-Key", key)
			}
			a := call.Gets(http.StatusUnauthorized, "invalid_key")
			if a.Body != plain.Body {
				t.Errorf("nonce %.40q: got %s, want %s", nonce, a.Body, plain.Body)
			}
			if proof := a.Header.Get(checkers.ProofHeader); (proof != "") != (nonce == good) {
				t.Errorf("nonce %.40q: got proof %q", nonce, proof)
			}
		}
	}
	if a := s.Call("hello").Key(k).Header(checkers.NonceHeader, good).Gets(http.StatusOK); a.Header.Get(checkers.ProofHeader) != "" {
		t.Error("an allowed request gets a proof")
	}
	row.Measured(fmt.Sprintf("%d", n))
}

type inCluster struct {
	*stacktest.Site
	dynamic   dynamic.Interface
	namespace string
}

func clusterOf(t *testing.T, s *stacktest.Site) inCluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Stack.Info().Kubeconfig)
	check.OK(t, err)
	d, err := dynamic.NewForConfig(config)
	check.OK(t, err)
	return inCluster{s, d, s.Project + "-" + s.Env}
}

func (c inCluster) create(t *testing.T, kind, text string) (remove func()) {
	t.Helper()
	list, err := manifest.Decode([]byte(text))
	check.OK(t, err)
	resource, _ := schema.ParseResourceArg(kind)
	there := c.dynamic.Resource(*resource).Namespace(c.namespace)
	if _, err := there.Create(t.Context(), list[0], meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		check.OK(t, there.Delete(t.Context(), list[0].GetName(), meta.DeleteOptions{}))
	}
}

func (c inCluster) regate(t *testing.T, app string) {
	t.Helper()
	if _, err := c.Client.RequireAPIKey(t.Context(), c.Project, c.Env, app, false); err != nil {
		t.Fatal(err)
	}
	c.WaitGate(app, "ungated")
	if _, err := c.Client.RequireAPIKey(t.Context(), c.Project, c.Env, app, true); err != nil {
		t.Fatal(err)
	}
}

// deleteNamespace also finalizes the namespace, because no namespace controller runs here.
func (c inCluster) deleteNamespace(t *testing.T) {
	t.Helper()
	namespaces := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	check.OK(t, namespaces.Delete(t.Context(), c.namespace, meta.DeleteOptions{}))
	u, err := namespaces.Get(t.Context(), c.namespace, meta.GetOptions{})
	check.OK(t, err)
	unstructured.RemoveNestedField(u.Object, "spec", "finalizers")
	if _, err := namespaces.Update(t.Context(), u, meta.UpdateOptions{}, "finalize"); err != nil {
		t.Fatal(err)
	}
}
