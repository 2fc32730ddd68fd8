package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluicegate/sluice/shared/app"
)

type ingressRoutes struct {
	middlewares
	entryPoints []any
	tls         map[string]any

	certified []string // hosts that may have ACME certificates; ".example.com" is every host below it
}

func newIngressRoutes(o Routes, gate middlewares) (*ingressRoutes, error) {
	if len(o.EntryPoints) == 0 { // Traefik would use all of its entry points
		return nil, errors.New("routes need at least one entry point")
	}
	r := &ingressRoutes{middlewares: gate}
	for _, e := range o.EntryPoints {
		r.entryPoints = append(r.entryPoints, e)
	}
	var err error
	if r.tls, err = parseRouteTLS(o.RouteTLS); err != nil {
		return nil, err
	}
	if o.CertificateDomain != "" {
		r.certified = append(r.certified, "."+strings.ToLower(o.CertificateDomain))
	}
	for _, host := range o.CertificateHosts {
		r.certified = append(r.certified, strings.ToLower(strings.TrimSpace(host)))
	}
	if r.resolves() && o.CertificateDomain == "" {
		return nil, errors.New("routes with an ACME resolver need the domain of apps")
	}
	return r, nil
}

func (r *ingressRoutes) resolves() bool { return r.tls["certResolver"] != nil }

// tlsFor returns the spec.tls of an app's route. A host that may not have an ACME certificate gets
// Traefik's default certificate, unless its route already uses the resolver.
func (r *ingressRoutes) tlsFor(route *unstructured.Unstructured, host string) map[string]any {
	allowed := slices.ContainsFunc(r.certified, func(c string) bool {
		return host == c || strings.HasPrefix(c, ".") && strings.HasSuffix(host, c)
	})
	if !r.resolves() || allowed || r.resolvesFor(route, host) {
		return r.tls
	}
	return defaultTLS()
}

func (r *ingressRoutes) resolvesFor(route *unstructured.Unstructured, host string) bool {
	if route == nil {
		return false
	}
	is, _, _ := unstructured.NestedMap(route.Object, "spec", "tls")
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "routes")
	return reflect.DeepEqual(is["certResolver"], r.tls["certResolver"]) && slices.ContainsFunc(rules, func(rule any) bool {
		fields, _ := rule.(map[string]any)
		return fields["match"] == hostRule(host)
	})
}

func hostRule(host string) string { return "Host(`" + host + "`)" }

// defaultTLS selects Traefik's default certificate. An empty spec.tls would mean the same, but
// applying it would not remove a field that is already set.
func defaultTLS() map[string]any { return map[string]any{"store": map[string]any{"name": "default"}} }

func (*ingressRoutes) kind() schema.GroupVersionKind { return traefikKind("IngressRoute") }

func (*ingressRoutes) blank() map[string]any                    { return map[string]any{"routes": []any{}} }
func (*ingressRoutes) accepted(*unstructured.Unstructured) bool { return true } // Traefik does not report it
func (*ingressRoutes) knative() bool                            { return true }

// The prefixes of the rules for preflights and WebSockets of a gated app.
const (
	preflights = "Method(`OPTIONS`) && HeaderRegexp(`Access-Control-Request-Method`, `.*`) && "
	websockets = "HeaderRegexp(`Upgrade`, `(?i)^websocket$`) && Method(`GET`) && "
)

// spec implements [routing].
//
// A gated route has two more rules. They begin with their cheapest condition, because Traefik
// tries longer rules first for every request. CORS preflights need no key and therefore must have
// no body. The rule for WebSockets restores the Upgrade header, which the gate removes.
//
// An open route has two rules for the same requests. The longer rule removes identity headers. If
// its Middleware is missing, Traefik ignores it and uses the other rule.
func (r *ingressRoutes) spec(o Objects, a app.App, by *gate) map[string]any {
	host := hostRule(a.Host)
	rules := []any{
		routeRule(o, a, host+" && PathPrefix(`/`)", stripName(a.Ref())),
		routeRule(o, a, host),
	}
	if by != nil {
		rules = []any{
			routeRule(o, a, host, by.middleware()),
			routeRule(o, a, preflights+host, preflightName(by.ref)),
			routeRule(o, a, websockets+host, by.middleware(), websocketName(by.ref)),
		}
		if by.refuse {
			rules = slices.Delete(rules, 1, 2) // preflights need a key too
		}
	}
	spec := map[string]any{"entryPoints": r.entryPoints, "routes": rules}
	if tls := r.tlsFor(o.route, a.Host); tls != nil {
		spec["tls"] = maps.Clone(tls)
	}
	return spec
}

func (*ingressRoutes) generation(w way, ref app.Ref) string {
	var names []string
	if w.route != nil {
		for _, rule := range objectsIn(w.route.Object, "spec", "routes") {
			for _, m := range objectsIn(rule, "middlewares") {
				name, _ := m["name"].(string)
				names = append(names, name)
			}
		}
	}
	return firstGeneration(names, ref)
}

// routeRule returns a rule that routes requests through Middlewares to the app. It sets the scheme,
// because Traefik would use https for port 443.
func routeRule(o Objects, a app.App, match string, through ...string) map[string]any {
	port := int64(a.Port)
	if o.onKnative() {
		port = knativePort(o)
		through = append(through, hostName(a.Ref()))
	}
	rule := map[string]any{
		"kind":     "Rule",
		"match":    match,
		"services": []any{map[string]any{"name": a.Name, "port": port, "scheme": "http", "nativeLB": true}},
	}
	if len(through) > 0 {
		chain := make([]any, len(through))
		for i, name := range through {
			chain[i] = map[string]any{"name": name}
		}
		rule["middlewares"] = chain
	}
	return rule
}

func (*ingressRoutes) leads(u *unstructured.Unstructured, host string) bool {
	rules := objectsIn(u.Object, "spec", "routes")
	return len(rules) == 0 || slices.ContainsFunc(rules, func(rule map[string]any) bool {
		match, _ := rule["match"].(string)
		return strings.Contains(match, hostRule(host))
	})
}

func (r *ingressRoutes) same(u *unstructured.Unstructured, desired map[string]any) bool {
	tls, _ := desired["tls"].(map[string]any)
	return sameTLS(u, tls) && sameFields(u, desired, "tls")
}

var resolverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

func parseRouteTLS(s string) (map[string]any, error) {
	kind, name, _ := strings.Cut(s, ":")
	switch {
	case s == "":
		return nil, nil //nolint:nilnil // no spec.tls is what was asked for
	case s == "default":
		return defaultTLS(), nil
	case kind == "resolver" && resolverName.MatchString(name):
		return map[string]any{"certResolver": name}, nil
	case kind == "secret" && len(validation.IsDNS1123Subdomain(name)) == 0:
		return map[string]any{"secretName": name}, nil
	}
	return nil, fmt.Errorf("TLS of routes %q must be empty, default, resolver:NAME or secret:NAME", s)
}

// sameTLS reports whether exactly the desired fields of spec.tls are owned by Sluice and have the
// desired values. Other field managers may own other fields.
func sameTLS(u *unstructured.Unstructured, desired map[string]any) bool {
	own := ownTLS(u.GetManagedFields())
	is, _, err := unstructured.NestedMap(u.Object, "spec", "tls")
	if err != nil || len(own) != len(desired) {
		return false
	}
	for field, v := range desired {
		if _, ours := own["f:"+field]; !ours || !reflect.DeepEqual(is[field], v) {
			return false
		}
	}
	return true
}

func ownTLS(managed []metav1.ManagedFieldsEntry) map[string]json.RawMessage {
	for _, m := range managed {
		if m.Manager != fieldManager || m.Operation != metav1.ManagedFieldsOperationApply || m.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec struct {
				TLS map[string]json.RawMessage `json:"f:tls"`
			} `json:"f:spec"`
		}
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			return nil
		}
		delete(fields.Spec.TLS, ".") // the object itself, if others have a field in it
		return fields.Spec.TLS
	}
	return nil
}
