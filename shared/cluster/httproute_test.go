package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func gatewayBench(t *testing.T, routes Routes) *bench {
	t.Helper()
	b := benchOf(t, routes)
	b.define()
	return b
}

func (b *bench) spec(kind schema.GroupVersionKind, name string) any {
	b.Helper()
	u, err := b.cluster.objects(kind, b.app.Namespace).get(b.Context(), name)
	b.must(err)
	return u.Object["spec"]
}

// says writes a status as a Gateway controller does.
func (b *bench) says(kind schema.GroupVersionKind, name, list string, accepted metav1.ConditionStatus) {
	b.Helper()
	objects := b.cluster.objects(kind, b.app.Namespace)
	u, err := objects.get(b.Context(), name)
	b.must(err)
	var conditions []any
	for _, c := range []string{"Accepted", "ResolvedRefs"} {
		conditions = append(conditions, map[string]any{
			"type": c, "status": string(accepted), "reason": "Test", "message": "", "observedGeneration": u.GetGeneration(), "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	gateway := map[string]any{"namespace": "traefik", "name": "apps"}
	u.Object["status"] = map[string]any{list: []any{map[string]any{
		"parentRef": gateway, "ancestorRef": gateway, "controllerName": "example.com/test", "conditions": conditions,
	}}}
	_, err = objects.api.UpdateStatus(b.Context(), u, metav1.UpdateOptions{})
	b.must(err)
}

func (b *bench) accepts(accepted metav1.ConditionStatus) {
	b.Helper()
	b.says(envoyKind("SecurityPolicy"), gateName(b.app.Ref()), "ancestors", accepted)
}

func (b *bench) ofGateway(rules ...any) any {
	return map[string]any{
		"parentRefs": []any{map[string]any{"group": gatewayGroup, "kind": "Gateway", "namespace": "traefik", "name": "apps", "sectionName": "web"}},
		"hostnames":  []any{b.app.Host}, "rules": rules,
	}
}

func TestHTTPRoute(t *testing.T) {
	t.Parallel()
	for _, kind := range []RouteKind{GatewayTraefikRoutes, GatewayEnvoyRoutes} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := gatewayBench(t, Routes{Kind: kind})
			b.place()
			to := []any{map[string]any{"group": "", "kind": "Service", "name": "hello", "port": int64(8080), "weight": int64(1)}}
			everything := []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}}
			rule := map[string]any{"matches": everything, "backendRefs": to}
			if kind == GatewayTraefikRoutes {
				rule["filters"] = []any{map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"remove": []any{
					"X-Service-Key-Prefix", "X-Service-Key-Name", "X_Service_Key_Prefix", "X_Service_Key_Name", "X.Service.Key.Prefix", "X.Service.Key.Name",
				}}}}
			}
			open := b.ofGateway(rule)
			check.Equal(t, "an open route", open, b.spec(gatewayKind("HTTPRoute"), "hello"))
			late := b.objects()
			b.gate()
			if kind == GatewayEnvoyRoutes {
				b.accepts(metav1.ConditionTrue)
			}
			want := gated
			want.Untaken = true // no Gateway runs
			check.Equal(t, "gated", want, b.state())
			if err := b.cluster.ApplyRoute(t.Context(), late, b.app, false); !problem.Is(err, problem.Conflict) {
				t.Errorf("late write: got %v, want conflict", err)
			}
			b.says(gatewayKind("HTTPRoute"), "hello", "parents", metav1.ConditionFalse)
			if !b.state().Untaken {
				t.Error("accepted returned true for a rejected route")
			}
			b.says(gatewayKind("HTTPRoute"), "hello", "parents", metav1.ConditionTrue)
			if b.state().Untaken {
				t.Error("accepted returned false for an accepted route")
			}
			v, err := b.cluster.Inventory(t.Context())
			b.must(err)
			check.Equal(t, "from the inventory", gated, b.cluster.State(v.Of(b.app.Ref()), b.app, []byte("CA")))

			b.release()
			if got := b.state(); got.Route != RouteOpen || got.Middleware != Absent {
				t.Errorf("after release: state %+v", got)
			}
			b.gate()
			b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
			if !b.objects().None() {
				t.Error("objects remain after deletion")
			}
		})
	}
}

func TestGatewayTraefikRules(t *testing.T) {
	t.Parallel()
	b := gatewayBench(t, Routes{Kind: GatewayTraefikRoutes})
	b.place()
	b.gate()
	ref := b.app.Ref()
	rule := func(conditions map[string]any, through ...string) map[string]any {
		conditions["path"] = map[string]any{"type": "PathPrefix", "value": "/"}
		var filters []any
		for _, name := range through {
			filters = append(filters, map[string]any{"type": "ExtensionRef", "extensionRef": map[string]any{"group": "traefik.io", "kind": "Middleware", "name": name}})
		}
		return map[string]any{
			"matches": []any{conditions}, "filters": filters,
			"backendRefs": []any{map[string]any{"group": "", "kind": "Service", "name": "hello", "port": int64(8080), "weight": int64(1)}},
		}
	}
	header := func(name, pattern string) []any {
		return []any{map[string]any{"type": "RegularExpression", "name": name, "value": pattern}}
	}
	want := b.ofGateway(
		rule(map[string]any{}, b.named().middleware()),
		rule(map[string]any{"method": "OPTIONS", "headers": header("Access-Control-Request-Method", ".*")}, preflightName(ref)),
		rule(map[string]any{"method": "GET", "headers": header("Upgrade", "(?i)^websocket$")}, b.named().middleware(), websocketName(ref)),
	)
	check.Equal(t, "rules", want, b.spec(gatewayKind("HTTPRoute"), "hello"))
}

// TestEnvoyGate tests the objects against Envoy Gateway's definitions; Envoy does not run.
func TestEnvoyGate(t *testing.T) {
	t.Parallel()
	b := gatewayBench(t, Routes{Kind: GatewayEnvoyRoutes})
	b.place()
	b.gate()
	name := gateName(b.app.Ref())
	want := map[string]any{
		"targetRefs": []any{map[string]any{"group": gatewayGroup, "kind": "HTTPRoute", "name": "hello"}},
		"extAuth": map[string]any{
			"failOpen": false, "statusOnError": int64(503), "timeout": "5s",
			"headersToExtAuth": []any{"X-API-Key", "X-Forwarded-Method", "Access-Control-Request-Method", "X-Request-Id", "X-Sluice-Probe"},
			"http": map[string]any{
				"backendRefs":      []any{map[string]any{"group": envoyGroup, "kind": "Backend", "name": name, "weight": int64(1)}},
				"pathOverride":     "/check/" + b.app.Namespace + "/hello/" + b.app.Gate.Generation(),
				"headersToBackend": []any{"X-Service-Key-Prefix", "X-Service-Key-Name"},
			},
		},
	}
	check.Equal(t, "policy", any(want), b.spec(envoyKind("SecurityPolicy"), name))
	want = map[string]any{
		"type":      "Endpoints",
		"endpoints": []any{map[string]any{"fqdn": map[string]any{"hostname": "sluice-checker.sluice-system.svc", "port": int64(8443)}}},
		"tls": map[string]any{
			"caCertificateRefs": []any{map[string]any{"group": "", "kind": "Secret", "name": "sluice-checker-ca"}},
			"sni":               "sluice-checker.sluice-system.svc", "insecureSkipVerify": false,
		},
	}
	check.Equal(t, "backend", any(want), b.spec(envoyKind("Backend"), name))
	spec, _ := b.spec(gatewayKind("HTTPRoute"), "hello").(map[string]any)
	rules := objectsIn(spec, "rules")
	removed := []any{map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"remove": []any{"X-API-Key", "X-Forwarded-Method", "HTTP2-Settings"}}}}
	check.Equal(t, "removed headers", any(removed), rules[0]["filters"])
	bare := []any{map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"remove": []any{
		"X-API-Key", "X-Forwarded-Method", "HTTP2-Settings", "Cookie", "Authorization", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override",
	}}}}
	check.Equal(t, "removed headers of preflights", any(bare), rules[1]["filters"])
	if len(rules) != 3 || rules[2]["backendRefs"] != nil || len(objectsIn(rules[2], "matches")) != 3 {
		t.Errorf("rule for preflights with bodies or upgrades: %v", rules)
	}
}

// TestEnvoyRouteIsClosedFirst tests that a new gated route has no backend until Envoy Gateway has
// accepted the current policy.
func TestEnvoyRouteIsClosedFirst(t *testing.T) {
	t.Parallel()
	b := gatewayBench(t, Routes{Kind: GatewayEnvoyRoutes})
	b.place()
	leads := func() bool {
		spec, _ := b.spec(gatewayKind("HTTPRoute"), "hello").(map[string]any)
		return objectsIn(spec, "rules")[0]["backendRefs"] != nil
	}
	b.must(b.cluster.objects(gatewayKind("HTTPRoute"), b.app.Namespace).delete(t.Context(), "hello", metav1.DeleteOptions{}))
	for _, said := range []metav1.ConditionStatus{"", metav1.ConditionFalse} {
		if said != "" {
			b.accepts(said)
		}
		b.gate()
		if got := b.state(); got.Route != RouteGated || leads() {
			t.Errorf("accepted %q: route %v, has a backend: %t", said, got.Route, leads())
		}
	}
	b.accepts(metav1.ConditionTrue)
	if got := b.state().Route; got != RouteClosed {
		t.Errorf("policy accepted: got %v, want RouteClosed", got)
	}
	b.gate()
	if got := b.state().Route; got != RouteGated || !leads() {
		t.Errorf("route: got %v, has a backend: %t", got, leads())
	}
	// A route remains gated when its policy is deleted.
	b.must(b.cluster.objects(envoyKind("SecurityPolicy"), b.app.Namespace).delete(t.Context(), gateName(b.app.Ref()), metav1.DeleteOptions{}))
	if got := b.state(); got.Middleware != Differs {
		t.Errorf("policy deleted: state %+v", got)
	}
	b.gate()
	check.Equal(t, "after repair", State{Deployment: Right, Service: Right, CA: Right, Middleware: Right, Route: RouteGated, Untaken: true}, b.state())
}

func TestHTTPRouteDriftIsSeen(t *testing.T) {
	t.Parallel()
	route, policy, backend := gatewayKind("HTTPRoute"), envoyKind("SecurityPolicy"), envoyKind("Backend")
	tests := []struct {
		name  string
		by    RouteKind
		kind  schema.GroupVersionKind
		patch string // JSON patch
	}{
		{"no gate", GatewayTraefikRoutes, route, `[{"op":"remove","path":"/spec/rules/0/filters"}]`},
		{"no gate for WebSockets", GatewayTraefikRoutes, route, `[{"op":"remove","path":"/spec/rules/2/filters/0"}]`},
		{"preflights around their gate", GatewayTraefikRoutes, route, `[{"op":"remove","path":"/spec/rules/1/filters"}]`},
		{"another rule", GatewayTraefikRoutes, route, `[{"op":"add","path":"/spec/rules/-","value":{"backendRefs":[{"name":"hello","port":8080}]}}]`},
		{"another host", GatewayTraefikRoutes, route, `[{"op":"add","path":"/spec/hostnames/-","value":"other.example"}]`},
		{"another Gateway", GatewayTraefikRoutes, route, `[{"op":"add","path":"/spec/parentRefs/-","value":{"name":"other"}}]`},
		{"the key reaches the app", GatewayEnvoyRoutes, route, `[{"op":"remove","path":"/spec/rules/0/filters"}]`},
		{"preflights with bodies", GatewayEnvoyRoutes, route, `[{"op":"remove","path":"/spec/rules/2"}]`},
		{"fails open", GatewayEnvoyRoutes, policy, `[{"op":"replace","path":"/spec/extAuth/failOpen","value":true}]`},
		{"another app's check", GatewayEnvoyRoutes, policy, `[{"op":"replace","path":"/spec/extAuth/http/pathOverride","value":"/check/a/b"}]`},
		{"another route's gate", GatewayEnvoyRoutes, policy, `[{"op":"replace","path":"/spec/targetRefs/0/name","value":"other"}]`},
		{"another certificate", GatewayEnvoyRoutes, backend, `[{"op":"replace","path":"/spec/tls/sni","value":"evil.example"}]`},
		{"another checker", GatewayEnvoyRoutes, backend, `[{"op":"replace","path":"/spec/endpoints/0/fqdn/hostname","value":"evil.example"}]`},
	}
	for _, tt := range tests {
		t.Run(string(tt.by)+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			b := gatewayBench(t, Routes{Kind: tt.by})
			b.place()
			b.gate()
			want := gated
			want.Untaken = true
			if diff := cmp.Diff(want, b.state()); diff != "" {
				t.Fatalf("before (-want +got):\n%s", diff)
			}
			name := "hello"
			if tt.kind != route {
				name = gateName(b.app.Ref())
			}
			_, err := b.cluster.objects(tt.kind, b.app.Namespace).api.Patch(t.Context(), name, types.JSONPatchType, []byte(tt.patch), metav1.PatchOptions{})
			b.must(err)
			if got := b.state(); got.Route == RouteGated && got.Middleware == Right {
				t.Errorf("the change was not detected: %+v", got)
			}
			if tt.by == GatewayEnvoyRoutes {
				b.accepts(metav1.ConditionTrue) // the route would be closed otherwise
			}
			b.gate()
			if tt.by == GatewayEnvoyRoutes {
				b.accepts(metav1.ConditionTrue)
				b.gate()
			}
			check.Equal(t, "after repair", want, b.state())
		})
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	for _, from := range RouteKinds() {
		for _, to := range RouteKinds() {
			if from == to {
				continue
			}
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				t.Parallel()
				b := gatewayBench(t, Routes{Kind: from})
				b.place()
				b.gate()
				after := gatewayBench(t, Routes{Kind: to, FormerKind: from})
				after.app = b.app
				sharedRoute := from != TraefikRoutes && to != TraefikRoutes
				sharedGate := from != GatewayEnvoyRoutes && to != GatewayEnvoyRoutes
				former := RouteGated
				if sharedRoute { // the route is rewritten; only the gate remains
					former = RouteClosed
				}
				if got := after.state().Former; got != former {
					t.Errorf("former route: got %v, want %v", got, former)
				}
				after.gate()
				if got := after.state(); got.Former != former || got.Route != RouteGated || got.Middleware != Right || !sharedRoute && !got.Untaken {
					t.Errorf("with both routes: state %+v", got)
				}
				v, err := after.cluster.Inventory(t.Context())
				b.must(err)
				if got := after.cluster.State(v.Of(b.app.Ref()), b.app, []byte("CA")).Former; got != former {
					t.Errorf("former route from Inventory: got %v, want %v", got, former)
				}
				b.must(after.cluster.DeletePreviousRoute(t.Context(), after.objects(), b.app.Ref()))
				if former == RouteGated && !sharedGate { // the gate outlives its route
					if got := after.state().Former; got != RouteClosed {
						t.Errorf("former route after its deletion: got %v, want RouteClosed", got)
					}
					b.must(after.cluster.DeletePreviousRoute(t.Context(), after.objects(), b.app.Ref()))
				}
				if got := after.state(); got.Former != RouteAbsent || got.Route != RouteGated || got.Middleware != Right {
					t.Errorf("after the move: state %+v", got)
				}
				old := b.objects()
				first := old.gate[b.cluster.routing.gate(b.named())[0].id()]
				if (old.route != nil) != sharedRoute || (first != nil) != sharedGate {
					t.Errorf("former objects exist: route %v, gate %v", old.route != nil, first != nil)
				}
			})
		}
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	route := &unstructured.Unstructured{}
	route.SetCreationTimestamp(metav1.NewTime(made))
	for _, tt := range []struct {
		age    time.Duration
		former *unstructured.Unstructured
		want   bool
	}{
		{0, route, false},
		{settleTime - time.Second, route, false},
		{settleTime, route, true},
		{0, nil, true},
	} {
		o := Objects{at: made.Add(tt.age), way: way{route: route}, former: way{route: tt.former}}
		if got := o.settled(); got != tt.want {
			t.Errorf("after %v, with a former route %t: got %t", tt.age, tt.former != nil, got)
		}
	}
}

func TestMoveKeepsForeignRoute(t *testing.T) {
	t.Parallel()
	b := gatewayBench(t, Routes{Kind: GatewayTraefikRoutes, FormerKind: TraefikRoutes})
	b.place()
	b.make("{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: hello}, spec: {routes: [{kind: Rule, match: Host(`a.example`), services: [{name: hello, port: 8080}]}]}}")
	if got := b.state().Former; got != RouteAbsent {
		t.Errorf("foreign route: got %v, want RouteAbsent", got)
	}
	b.must(b.cluster.DeletePreviousRoute(t.Context(), b.objects(), b.app.Ref()))
	var existing *unstructured.Unstructured
	existing, err := b.cluster.objects(traefikKind("IngressRoute"), b.app.Namespace).find(t.Context(), "hello")
	b.must(err)
	if existing == nil {
		t.Error("the foreign route was deleted")
	}
	check.Equal(t, "bypasses", []string{"IngressRoute hello (Host(`a.example`))"}, b.bypass().Ways)
}
