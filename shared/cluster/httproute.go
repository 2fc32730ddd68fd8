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

// httpRoutes is the common part of the routings of the Gateway API. It writes every field for which
// the API server has a default, so that routes can be compared as a whole.
//
// Neither Traefik nor Envoy Gateway routes from an HTTPRoute to a Service of type ExternalName.
// Requests to apps on Knative, which uses such Services, therefore get 500.
type httpRoutes struct {
	gateway map[string]any // the only parentRef of a route
}

func newHTTPRoutes(gateway string) (httpRoutes, error) {
	names := strings.Split(gateway, "/")
	for i, name := range names {
		invalid := validation.IsDNS1123Subdomain(name)
		if i == 0 {
			invalid = validation.IsDNS1123Label(name)
		}
		if len(invalid) > 0 || len(names) < 2 || len(names) > 3 {
			return httpRoutes{}, fmt.Errorf("gateway %q must be NAMESPACE/NAME or NAMESPACE/NAME/LISTENER", gateway)
		}
	}
	parent := map[string]any{"group": gatewayGroup, "kind": "Gateway", "namespace": names[0], "name": names[1]}
	if len(names) == 3 {
		parent["sectionName"] = names[2]
	}
	return httpRoutes{parent}, nil
}

func (httpRoutes) kind() schema.GroupVersionKind { return gatewayKind("HTTPRoute") }

// blank returns a spec without a parent, so no Gateway serves it.
func (httpRoutes) blank() map[string]any { return map[string]any{} }

func (httpRoutes) knative() bool { return false }

func (httpRoutes) leads(u *unstructured.Unstructured, host string) bool {
	names, _, err := unstructured.NestedStringSlice(u.Object, "spec", "hostnames")
	return err == nil && (len(names) == 0 || slices.Contains(names, host))
}

func (httpRoutes) same(u *unstructured.Unstructured, desired map[string]any) bool {
	return sameFields(u, desired)
}

// accepted reports whether a Gateway has accepted the route's current generation and resolved its
// references.
func (httpRoutes) accepted(u *unstructured.Unstructured) bool {
	parents := objectsIn(u.Object, "status", "parents")
	for _, p := range parents {
		if !holds(p, "Accepted", u.GetGeneration()) || !holds(p, "ResolvedRefs", u.GetGeneration()) {
			return false
		}
	}
	return len(parents) > 0
}

func holds(status map[string]any, kind string, generation int64) bool {
	for _, c := range objectsIn(status, "conditions") {
		observed, _ := c["observedGeneration"].(int64)
		if c["type"] == kind && c["status"] == string(metav1.ConditionTrue) && observed == generation {
			return true
		}
	}
	return false
}

func (r httpRoutes) route(a app.App, rules ...any) map[string]any {
	return map[string]any{"parentRefs": []any{r.gateway}, "hostnames": []any{a.Host}, "rules": rules}
}

// match returns the condition of a rule: a method ("" for any), and pairs of a header name and a
// pattern.
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

// gatewayTraefik is the routing of [GatewayTraefikRoutes]. Its rules name the gate's Middlewares
// as filters. Traefik does not serve a route that names a missing Middleware.
type gatewayTraefik struct {
	httpRoutes
	middlewares
}

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
		rules = slices.Delete(rules, 1, 2) // preflights need a key too
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

// stripFilter removes both identity headers on an open route. It covers only the spellings with one
// separator throughout, because the Gateway API allows no patterns and at most 16 names.
func stripFilter() map[string]any {
	var names []any
	for _, between := range []string{"-", "_", "."} {
		for _, last := range []string{"Prefix", "Name"} {
			names = append(names, strings.Join([]string{"X", "Service", "Key", last}, between))
		}
	}
	return removes(names)
}

func filter(name string) map[string]any {
	kind := middlewareKind()
	return map[string]any{"type": "ExtensionRef", "extensionRef": map[string]any{"group": kind.Group, "kind": kind.Kind, "name": name}}
}
