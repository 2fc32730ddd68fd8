package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

var gated = State{Deployment: Right, Service: Right, CA: Right, Middleware: Right, Route: RouteGated}

func TestGate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.place()
	b.gate()
	if diff := cmp.Diff(gated, b.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	o := b.objects()
	gate := map[string]any{
		"address":                  checkerURL + "/check/" + b.app.Namespace + "/hello",
		"tls":                      map[string]any{"caSecret": "sluice-checker-ca"},
		"trustForwardHeader":       false,
		"forwardBody":              false,
		"maxResponseBodySize":      int64(4096),
		"authResponseHeadersRegex": `(?i)^(x[^0-9a-z](service[^0-9a-z]key[^0-9a-z](prefix|name)|api[^0-9a-z]key)|upgrade|http2-settings)$`,
		"authRequestHeaders":       []any{"X-API-Key", "Access-Control-Request-Method", "X-Request-Id", "X-Sluice-Probe"},
	}
	bodiless := maps.Clone(gate)
	bodiless["forwardBody"], bodiless["maxBodySize"] = true, int64(0)
	want := []any{
		map[string]any{"forwardAuth": gate},
		map[string]any{"forwardAuth": bodiless},
		map[string]any{"headers": map[string]any{"customRequestHeaders": map[string]any{"Upgrade": "websocket"}}},
	}
	var got []any
	for _, u := range o.gate {
		got = append(got, u.Object["spec"])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("middlewares (-want +got):\n%s", diff)
	}
	b.rules(o)
	ctx := t.Context()
	b.must(b.cluster.ApplyRoute(ctx, b.objects(), b.app, false))
	b.must(b.cluster.DeleteMiddleware(ctx, b.objects(), b.app.Ref()))
	if got := b.state(); got.Route != RouteOpen || got.Middleware != Absent {
		t.Errorf("after release: %+v", got)
	}
}

// rules checks that every way to the app begins with a gate.
func (b *bench) rules(o Objects) {
	b.Helper()
	rules, _, err := unstructured.NestedSlice(o.route.Object, "spec", "routes")
	b.must(err)
	rule := func(match string, through ...string) map[string]any {
		var chain []any
		for _, name := range through {
			chain = append(chain, map[string]any{"name": name})
		}
		return map[string]any{
			"kind": "Rule", "match": match, "middlewares": chain,
			"services": []any{map[string]any{"name": "hello", "port": int64(8080), "scheme": "http", "nativeLB": true}},
		}
	}
	ref, host := b.app.Ref(), "Host(`"+b.app.Host+"`)"
	want := []any{
		rule(host, gateName(ref)),
		rule("Method(`OPTIONS`) && HeaderRegexp(`Access-Control-Request-Method`, `.*`) && "+host, preflightName(ref)),
		rule("HeaderRegexp(`Upgrade`, `(?i)^websocket$`) && Method(`GET`) && "+host, gateName(ref), websocketName(ref)),
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		b.Errorf("rules (-want +got):\n%s", diff)
	}
}

// TestLateWriter shows that whoever has looked before somebody else's write cannot
// undo it: not on a route that was there, and not on one that was not.
func TestLateWriter(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"existing route": true, "new route": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.place()
			if !before {
				b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
			}
			late := b.objects()
			b.gate()
			if err := b.cluster.ApplyRoute(t.Context(), late, b.app, false); !problem.Is(err, problem.Conflict) {
				t.Errorf("the late write: %v, want conflict", err)
			}
			if got := b.state().Route; got != RouteGated {
				t.Errorf("the route is %v, want it gated still", got)
			}
		})
	}
}

func TestDriftIsSeen(t *testing.T) {
	t.Parallel()
	routes, gates, preflights, sockets := "ingressroutes", "gate", "preflights", "sockets"
	tests := []struct {
		name  string
		kind  string
		patch string // JSON patch
		want  func(*State)
	}{
		{"middleware taken off the route", routes, `[{"op":"remove","path":"/spec/routes/0/middlewares"}]`, func(s *State) { s.Route = RouteDiffers }},
		{"gate taken off the WebSockets' route", routes, `[{"op":"remove","path":"/spec/routes/2/middlewares/0"}]`, func(s *State) { s.Route = RouteDiffers }},
		{"every method for WebSockets", routes, `[{"op":"replace","path":"/spec/routes/2/match","value":"HeaderRegexp(+Upgrade+, +.+) && Host(+x+)"}]`, func(s *State) { s.Route = RouteDiffers }},
		{"preflights around their gate", routes, `[{"op":"remove","path":"/spec/routes/1/middlewares"}]`, func(s *State) { s.Route = RouteDiffers }},
		{"no route for WebSockets", routes, `[{"op":"remove","path":"/spec/routes/2"}]`, func(s *State) { s.Route = RouteDiffers }},
		{"a second route", routes, `[{"op":"add","path":"/spec/routes/-","value":{"kind":"Rule","match":"Path("+"/x"+")"}}]`, func(s *State) { s.Route = RouteDiffers }},
		{"another host", routes, `[{"op":"replace","path":"/spec/routes/0/match","value":"Host(+other+)"}]`, func(s *State) { s.Route = RouteDiffers }},
		{"another entry point", routes, `[{"op":"add","path":"/spec/entryPoints/-","value":"other"}]`, func(s *State) { s.Route = RouteDiffers }},
		{"route's label", routes, `[{"op":"remove","path":"/metadata/labels"}]`, func(s *State) { s.Route = RouteDiffers }},
		{"another address", gates, `[{"op":"replace","path":"/spec/forwardAuth/address","value":"https://evil.example"}]`, func(s *State) { s.Middleware = Differs }},
		{"forwarded headers trusted", gates, `[{"op":"replace","path":"/spec/forwardAuth/trustForwardHeader","value":true}]`, func(s *State) { s.Middleware = Differs }},
		{"TLS not verified", gates, `[{"op":"add","path":"/spec/forwardAuth/tls/insecureSkipVerify","value":true}]`, func(s *State) { s.Middleware = Differs }},
		{"bodies in preflights", preflights, `[{"op":"remove","path":"/spec/forwardAuth/maxBodySize"}]`, func(s *State) { s.Middleware = Differs }},
		{"another upgrade", sockets, `[{"op":"replace","path":"/spec/headers/customRequestHeaders/Upgrade","value":"h2c"}]`, func(s *State) { s.Middleware = Differs }},
		{"headers not stripped", gates, `[{"op":"remove","path":"/spec/forwardAuth/authResponseHeadersRegex"}]`, func(s *State) { s.Middleware = Differs }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.place()
			b.gate()
			name, objects := b.app.Name, b.cluster.objects(traefikKind("IngressRoute"), b.app.Namespace)
			if i := slices.Index([]string{gates, preflights, sockets}, tt.kind); i >= 0 {
				name, objects = b.cluster.routing.gate(b.app.Ref())[i].name, b.cluster.objects(middlewareKind(), b.app.Namespace)
			}
			patch := strings.NewReplacer(`"+"`, "`", "+", "`").Replace(tt.patch)
			_, err := objects.api.Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			b.must(err)
			want := gated
			tt.want(&want)
			if diff := cmp.Diff(want, b.state()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			b.gate()
			if diff := cmp.Diff(gated, b.state()); diff != "" {
				t.Errorf("state after repair (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHostCannotBreakOutOfTheRule(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.place()
	for _, host := range []string{"a`) || PathPrefix(`/", "a.b`", "", "*.example.com", "a b.c", "A.example.com"} {
		b.app.Host = host
		if err := b.cluster.ApplyRoute(t.Context(), b.objects(), b.app, false); err == nil {
			t.Errorf("host %q was taken", host)
		}
	}
}

func TestGateNames(t *testing.T) {
	t.Parallel()
	// Traefik joins namespace and name with a hyphen.
	seen := map[string]app.Ref{}
	for _, ref := range []app.Ref{
		{Namespace: "p-e", Name: "q-sluice-gate-x"},
		{Namespace: "p-e-sluice-gate-q", Name: "x"},
		{Namespace: "a", Name: "b-c"},
		{Namespace: "a-b", Name: "c"},
	} {
		id := ref.Namespace + "-" + gateName(ref)
		if other, ok := seen[id]; ok {
			t.Errorf("%v and %v are both %s to Traefik", ref, other, id)
		}
		seen[id] = ref
		if long := gateName(app.Ref{Namespace: ref.Namespace, Name: strings.Repeat("a", 40)}); len(long) > 63 {
			t.Errorf("%s has %d characters", long, len(long))
		}
	}
}

func TestInventory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.place()
	b.gate()
	v, err := b.cluster.Inventory(t.Context())
	b.must(err)
	if diff := cmp.Diff(gated, b.cluster.State(v.Of(b.app.Ref()), b.app, []byte("CA"))); diff != "" {
		t.Errorf("state from the inventory (-want +got):\n%s", diff)
	}
	if !v.Of(app.Ref{Namespace: b.app.Namespace, Name: "other"}).None() {
		t.Error("an app that is not there has objects")
	}
	_, err = b.cluster.objects(traefikKind("IngressRoute"), b.app.Namespace).api.Patch(t.Context(), "hello", types.JSONPatchType,
		[]byte(`[{"op":"remove","path":"/metadata/labels"}]`), metav1.PatchOptions{})
	b.must(err)
	v, err = b.cluster.Inventory(t.Context())
	b.must(err)
	if got := b.cluster.State(v.Of(b.app.Ref()), b.app, []byte("CA")).Route; got != RouteAbsent {
		t.Errorf("a route without the label is %v in the inventory, want absent, so that it is looked at", got)
	}
}
