package cluster

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluicegate/sluice/shared/app"
)

const gatewayGroup = "gateway.networking.k8s.io"

// httpRoutes is what the routings of the Gateway API have in common. Every field is
// written that the API server would fill in, so that what is there compares as a whole.
//
// How a Gateway is reached, and its certificates, are its listeners' and so its owner's to
// say. Neither Traefik nor Envoy Gateway follows from an HTTPRoute a Service of type
// ExternalName, which Knative's are: such an app answers 500 here.
type httpRoutes struct {
	gateway map[string]any // the one parentRef of a route
}

// newHTTPRoutes reads [Routes.Gateway].
func newHTTPRoutes(gateway string) (httpRoutes, error) {
	names := strings.Split(gateway, "/")
	for i, name := range names {
		invalid := validation.IsDNS1123Subdomain(name)
		if i == 0 {
			invalid = validation.IsDNS1123Label(name)
		}
		if len(invalid) > 0 || len(names) < 2 || len(names) > 3 {
			return httpRoutes{}, fmt.Errorf("the Gateway %q is not NAMESPACE/NAME or NAMESPACE/NAME/LISTENER", gateway)
		}
	}
	parent := map[string]any{"group": gatewayGroup, "kind": "Gateway", "namespace": names[0], "name": names[1]}
	if len(names) == 3 {
		parent["sectionName"] = names[2]
	}
	return httpRoutes{parent}, nil
}

func (httpRoutes) kind() schema.GroupVersionKind { return gatewayKind("HTTPRoute") }

// blank has no parent, so no Gateway takes it.
func (httpRoutes) blank() map[string]any { return map[string]any{} }

func (httpRoutes) knative() bool { return false }

func (httpRoutes) leads(u *unstructured.Unstructured, host string) bool {
	names, _, err := unstructured.NestedStringSlice(u.Object, "spec", "hostnames")
	return err == nil && (len(names) == 0 || slices.Contains(names, host))
}

func (httpRoutes) same(u *unstructured.Unstructured, shall map[string]any) bool {
	return sameFields(u, shall)
}

// taken tells whether a Gateway has accepted the route as it is, and found what it names.
func (httpRoutes) taken(u *unstructured.Unstructured) bool {
	parents := objectsIn(u.Object, "status", "parents")
	for _, p := range parents {
		if !holds(p, "Accepted", u.GetGeneration()) || !holds(p, "ResolvedRefs", u.GetGeneration()) {
			return false
		}
	}
	return len(parents) > 0
}

// holds tells whether a condition is true of an object's present generation.
func holds(status map[string]any, kind string, generation int64) bool {
	for _, c := range objectsIn(status, "conditions") {
		observed, _ := c["observedGeneration"].(int64)
		if c["type"] == kind && c["status"] == string(metav1.ConditionTrue) && observed == generation {
			return true
		}
	}
	return false
}

// route is the spec of an app's HTTPRoute.
func (r httpRoutes) route(a app.App, rules ...any) map[string]any {
	return map[string]any{"parentRefs": []any{r.gateway}, "hostnames": []any{a.Host}, "rules": rules}
}

// match is the condition of a rule, by method ("" is any) and headers, name and pattern
// in turn. Conditions that say more are tried first, as the Gateway API has it.
func match(method string, headers ...string) map[string]any {
	m := map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}
	if method != "" {
		m["method"] = method
	}
	var all []any
	for i := 0; i+1 < len(headers); i += 2 {
		all = append(all, map[string]any{"type": "RegularExpression", "name": headers[i], "value": headers[i+1]})
	}
	if len(all) > 0 {
		m["headers"] = all
	}
	return m
}

// leads is a rule by which requests go through filters to the app.
func leads(a app.App, when map[string]any, filters ...any) map[string]any {
	rule := map[string]any{
		"matches": []any{when},
		"backendRefs": []any{map[string]any{
			"group": "", "kind": "Service", "name": a.Name, "port": int64(a.Port), "weight": int64(1),
		}},
	}
	if len(filters) > 0 {
		rule["filters"] = filters
	}
	return rule
}

// gatewayTraefik is the routing of [GatewayTraefikRoutes]: a rule names the Middlewares of
// the gate as filters. A route that names one which is missing is not served.
type gatewayTraefik struct {
	httpRoutes
	middlewares
}

// spec has the rules that an IngressRoute has, for the same reasons.
func (r gatewayTraefik) spec(_ Objects, a app.App, by *gate) map[string]any {
	if by == nil {
		return r.route(a, leads(a, match(""), stripFilter()))
	}
	rules := []any{
		leads(a, match(""), filter(by.middleware())),
		leads(a, match("OPTIONS", "Access-Control-Request-Method", ".*"), filter(preflightName(by.ref))),
		leads(a, match("GET", "Upgrade", "(?i)^websocket$"), filter(by.middleware()), filter(websocketName(by.ref))),
	}
	if by.refuse {
		rules = slices.Delete(rules, 1, 2) // preflights are requests like any other
	}
	return r.route(a, rules...)
}

func (gatewayTraefik) generation(w way, ref app.Ref) string {
	var names []string
	if w.route != nil {
		for _, rule := range objectsIn(w.route.Object, "spec", "rules") {
			for _, f := range objectsIn(rule, "filters") {
				name, _, _ := unstructured.NestedString(f, "extensionRef", "name")
				names = append(names, name)
			}
		}
	}
	return firstGeneration(names, ref)
}

// stripFilter removes both identity headers on an open route, in the spellings with one
// character throughout. The Gateway API has no patterns, and 16 names at most.
func stripFilter() map[string]any {
	var names []any
	for _, between := range []string{"-", "_", "."} {
		for _, last := range []string{"Prefix", "Name"} {
			names = append(names, strings.Join([]string{"X", "Service", "Key", last}, between))
		}
	}
	return removes(names)
}

// filter leads through a Middleware.
func filter(name string) map[string]any {
	kind := middlewareKind()
	return map[string]any{"type": "ExtensionRef", "extensionRef": map[string]any{"group": kind.Group, "kind": kind.Kind, "name": name}}
}
