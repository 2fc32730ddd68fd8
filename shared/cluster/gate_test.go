package cluster

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

var gated = State{Deployment: Right, Service: Right, CA: Right, Middleware: Right, Route: RouteGated}

func TestGate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.place()
	b.gate()
	check.Equal(t, "state", gated, b.state())
	o := b.objects()
	ask := map[string]any{
		"address":                  checkerURL + "/check/" + b.app.Namespace + "/hello",
		"tls":                      map[string]any{"caSecret": "sluice-checker-ca"},
		"trustForwardHeader":       false,
		"forwardBody":              false,
		"maxResponseBodySize":      int64(4096),
		"authResponseHeadersRegex": `(?i)^(x[^0-9a-z](service[^0-9a-z]key[^0-9a-z](prefix|name)|api[^0-9a-z]key)|upgrade|http2-settings)$`,
		"authRequestHeaders":       []any{"X-API-Key", "Access-Control-Request-Method", "X-Request-Id", "X-Sluice-Probe"},
	}
	bodiless, generation := maps.Clone(ask), maps.Clone(ask)
	bodiless["forwardBody"], bodiless["maxBodySize"] = true, int64(0)
	bodiless["authResponseHeadersRegex"] = `(?i)^(x[^0-9a-z](service[^0-9a-z]key[^0-9a-z](prefix|name)|api[^0-9a-z]key|http[^0-9a-z]method([^0-9a-z]override)?|method[^0-9a-z]override)|upgrade|http2-settings|cookie|authorization)$`
	generation["address"] = checkerURL + "/check/" + b.app.Namespace + "/hello/" + b.app.Gate.Generation()
	want := map[string]any{
		gateName(b.app.Ref()):                                 map[string]any{"forwardAuth": ask},
		preflightName(b.app.Ref()):                            map[string]any{"forwardAuth": bodiless},
		websocketName(b.app.Ref()):                            map[string]any{"headers": map[string]any{"customRequestHeaders": map[string]any{"Upgrade": "websocket"}}},
		gateName(b.app.Ref()) + "-" + b.app.Gate.Generation(): map[string]any{"forwardAuth": generation},
	}
	got := map[string]any{}
	for id, u := range o.gate {
		got[id.name] = u.Object["spec"]
	}
	check.Equal(t, "middlewares", want, got)
	b.rules(o)
	b.release()
	if got := b.state(); got.Route != RouteOpen || got.Middleware != Absent {
		t.Errorf("after release: %+v", got)
	}
}

// rules checks that every rule of the app's route begins with a gate.
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
	named := gateName(ref) + "-" + b.app.Gate.Generation()
	want := []any{
		rule(host, named),
		rule("Method(`OPTIONS`) && HeaderRegexp(`Access-Control-Request-Method`, `.*`) && "+host, preflightName(ref)),
		rule("HeaderRegexp(`Upgrade`, `(?i)^websocket$`) && Method(`GET`) && "+host, named, websocketName(ref)),
	}
	check.Equal(b, "rules", want, rules)
}

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
				t.Errorf("late write: got %v, want conflict", err)
			}
			if got := b.state().Route; got != RouteGated {
				t.Errorf("route: got %v, want RouteGated", got)
			}
		})
	}
}

func TestDriftIsSeen(t *testing.T) {
	t.Parallel()
	routes, gates, preflights, sockets, generations := "ingressroutes", "gate", "preflights", "sockets", "generation"
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
		{"another address of the generation", generations, `[{"op":"replace","path":"/spec/forwardAuth/address","value":"https://evil.example"}]`, func(s *State) { s.Middleware = Differs }},
		{"headers not stripped", gates, `[{"op":"remove","path":"/spec/forwardAuth/authResponseHeadersRegex"}]`, func(s *State) { s.Middleware = Differs }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.place()
			b.gate()
			name, objects := b.app.Name, b.cluster.objects(traefikKind("IngressRoute"), b.app.Namespace)
			if i := slices.Index([]string{gates, preflights, sockets, generations}, tt.kind); i >= 0 {
				name, objects = b.cluster.routing.gate(b.named())[i].name, b.cluster.objects(middlewareKind(), b.app.Namespace)
			}
			patch := strings.NewReplacer(`"+"`, "`", "+", "`").Replace(tt.patch)
			_, err := objects.api.Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			b.must(err)
			want := gated
			tt.want(&want)
			check.Equal(t, "state", want, b.state())
			b.gate()
			check.Equal(t, "state after repair", gated, b.state())
		})
	}
}

// TestGenerations tests that a route names another Middleware each time its gate is switched on,
// and that earlier Middlewares can be deleted.
func TestGenerations(t *testing.T) {
	t.Parallel()
	for _, kind := range []RouteKind{TraefikRoutes, GatewayTraefikRoutes} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := gatewayBench(t, Routes{Kind: kind})
			b.place()
			b.gate()
			first := b.named()
			b.app.Gate = app.Gate{State: app.Engaged, Since: time.Now().Add(time.Second)}
			if got := b.state(); got.Route != RouteGated || got.Middleware != Right {
				t.Errorf("gate in place: state %+v", got)
			}
			b.app.Gate = app.Gate{State: app.Pending, Since: time.Now().Add(2 * time.Second)}
			if got := b.state(); got.Route != RouteOutdated || got.Middleware != Outdated {
				t.Errorf("after switching off and on: state %+v", got)
			}
			b.gate()
			second := b.named()
			if got := b.state(); got.Route != RouteGated || got.Middleware != Right || second.generation == first.generation {
				t.Errorf("generation %q after %q: %+v", second.generation, first.generation, got)
			}
			existing := func(g gate) bool {
				u, err := b.cluster.objects(middlewareKind(), b.app.Namespace).find(t.Context(), g.middleware())
				b.must(err)
				return u != nil
			}
			if !existing(first) {
				t.Error("the earlier Middleware was deleted before the proof")
			}
			b.must(b.cluster.RemoveGenerations(t.Context(), b.objects(), b.app.Ref()))
			if existing(first) || !existing(second) {
				t.Errorf("Middleware exists: earlier %t, present %t; want false, true", existing(first), existing(second))
			}
			b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
			if existing(second) {
				t.Error("a Middleware of the deleted app exists")
			}
		})
	}
}

func TestRefusedPreflights(t *testing.T) {
	t.Parallel()
	for _, kind := range RouteKinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := gatewayBench(t, Routes{Kind: kind})
			b.app.Preflight = app.PreflightRefuse
			b.place()
			b.gate()
			if got := b.state(); got.Route != RouteGated || got.Middleware != Right {
				t.Errorf("state: %+v", got)
			}
			o := b.objects()
			texts := []any{o.route.Object["spec"]}
			for _, u := range o.gate {
				texts = append(texts, u.Object["spec"])
			}
			text, err := json.Marshal(texts[1:])
			b.must(err)
			if strings.Contains(string(text), "Access-Control-Request-Method") {
				t.Errorf("the checker is called for preflights: %s", text)
			}
			text, err = json.Marshal(texts[0])
			b.must(err)
			if kind != GatewayEnvoyRoutes && strings.Contains(string(text), "OPTIONS") {
				t.Errorf("the route has a rule for preflights: %s", text)
			}
			b.app.Preflight, b.app.Gate.State = app.PreflightApp, app.Engaged
			if got := b.state(); got.Route != RouteOutdated {
				t.Errorf("after a change of the setting: state %+v", got)
			}
		})
	}
}

// TestEarlierRelease tests that a gate of a release without generations is outdated, not changed.
func TestEarlierRelease(t *testing.T) {
	t.Parallel()
	for _, kind := range RouteKinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := gatewayBench(t, Routes{Kind: kind})
			b.place()
			b.app.RequireAPIKey, b.app.Gate = true, app.Gate{State: app.Engaged, Since: time.Now()}
			earlier := gate{ref: b.app.Ref()}
			for _, p := range b.cluster.routing.gate(earlier) {
				if p.earlier != nil {
					p.spec = p.earlier
				}
				b.must(b.cluster.writePart(t.Context(), nil, p, b.app.Ref()))
			}
			o := b.objects()
			earlier.refuse = kind == GatewayEnvoyRoutes // its routes had no rules for preflights
			b.must(b.cluster.objects(b.cluster.routing.kind(), b.app.Namespace).apply(t.Context(),
				owned(b.app.Ref(), b.app.Name, b.cluster.routing.spec(o, b.app, &earlier), o.route)))
			got := b.state()
			if got.Middleware != Outdated || got.Route != RouteOutdated && got.Route != RouteGated {
				t.Errorf("before: %+v", got)
			}
			b.gate()
			if got := b.state(); got.Middleware != Right || got.Route != RouteGated || b.named().generation == "" {
				t.Errorf("generation %q: %+v", b.named().generation, got)
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
			t.Errorf("host %q: got no error", host)
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
			t.Errorf("Traefik uses the same name for %v and %v: %s", ref, other, id)
		}
		seen[id] = ref
		if long := gateName(app.Ref{Namespace: ref.Namespace, Name: strings.Repeat("a", 40)}); len(long) > 63 {
			t.Errorf("%s: got %d characters, want at most 63", long, len(long))
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
	check.Equal(t, "state from Inventory", gated, b.cluster.State(v.Of(b.app.Ref()), b.app, []byte("CA")))
	if !v.Of(app.Ref{Namespace: b.app.Namespace, Name: "other"}).None() {
		t.Error("an app that does not exist has objects")
	}
	_, err = b.cluster.objects(traefikKind("IngressRoute"), b.app.Namespace).api.Patch(t.Context(), "hello", types.JSONPatchType,
		[]byte(`[{"op":"remove","path":"/metadata/labels"}]`), metav1.PatchOptions{})
	b.must(err)
	v, err = b.cluster.Inventory(t.Context())
	b.must(err)
	if got := b.cluster.State(v.Of(b.app.Ref()), b.app, []byte("CA")).Route; got != RouteAbsent {
		t.Errorf("route without the label: got %v, want RouteAbsent", got)
	}
}
