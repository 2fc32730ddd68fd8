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

// ingressRoutes is the routing of [TraefikRoutes].
type ingressRoutes struct {
	middlewares
	entryPoints []any
	tls         map[string]any // nil says nothing of it

	certified []string // hosts, and with a leading dot domains, that may have ACME certificates
}

func newIngressRoutes(o Routes, gate middlewares) (*ingressRoutes, error) {
	if len(o.EntryPoints) == 0 { // Traefik would take all of its own
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
		return nil, errors.New("routes with an ACME resolver need the apps' domain")
	}
	return r, nil
}

// resolves reports whether an ACME resolver gets the routes' certificates.
func (r *ingressRoutes) resolves() bool { return r.tls["certResolver"] != nil }

// tlsFor returns spec.tls of an app's route. A host that may have no certificate of the
// resolver is served with Traefik's default certificate, unless its route has the resolver
// already: then its certificate stays.
func (r *ingressRoutes) tlsFor(route *unstructured.Unstructured, host string) map[string]any {
	allowed := slices.ContainsFunc(r.certified, func(c string) bool {
		return host == c || strings.HasPrefix(c, ".") && strings.HasSuffix(host, c)
	})
	if !r.resolves() || allowed || r.resolvesFor(route, host) {
		return r.tls
	}
	return defaultTLS()
}

// resolvesFor reports whether a route has the resolver for this host.
func (r *ingressRoutes) resolvesFor(route *unstructured.Unstructured, host string) bool {
	if route == nil {
		return false
	}
	is, _, _ := unstructured.NestedMap(route.Object, "spec", "tls")         // no such field is no resolver
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "routes") // likewise
	return reflect.DeepEqual(is["certResolver"], r.tls["certResolver"]) && slices.ContainsFunc(rules, func(rule any) bool {
		fields, _ := rule.(map[string]any)
		return fields["match"] == hostRule(host)
	})
}

// hostRule matches the requests for a host.
func hostRule(host string) string { return "Host(`" + host + "`)" }

// defaultTLS is Traefik's choice among the certificates that it holds. An empty spec.tls means
// the same, but cannot be applied over a field in it.
func defaultTLS() map[string]any { return map[string]any{"store": map[string]any{"name": "default"}} }

func (*ingressRoutes) kind() schema.GroupVersionKind         { return traefikKind("IngressRoute") }
func (*ingressRoutes) blank() map[string]any                 { return map[string]any{"routes": []any{}} }
func (*ingressRoutes) taken(*unstructured.Unstructured) bool { return true } // Traefik never says
func (*ingressRoutes) knative() bool                         { return true }

// What the rules for preflights and WebSockets of a gated app begin with.
const (
	preflights = "Method(`OPTIONS`) && HeaderRegexp(`Access-Control-Request-Method`, `.*`) && "
	websockets = "HeaderRegexp(`Upgrade`, `(?i)^websocket$`) && Method(`GET`) && "
)

// spec: the gate comes before anything else that is done to a request.
//
// A gated route has two more rules: for CORS preflights, which pass without a key and
// so may carry no body, and for WebSockets, which get back the Upgrade that the gate
// takes from everything. Traefik tries longer rules first, so these two begin with what
// is cheapest to tell.
//
// An open route has two rules that match the same requests. The longer one removes
// identity headers, which no app is to take from a client. Traefik leaves out a rule whose
// Middleware is missing, and serves the app by the other one: an app without a gate does
// not depend on it.
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
			rules = slices.Delete(rules, 1, 2) // preflights are requests like any other
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

// routeRule leads what matches through Middlewares to the app. The scheme is said
// because Traefik takes a Service's port 443 for https.
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

func (r *ingressRoutes) same(u *unstructured.Unstructured, shall map[string]any) bool {
	tls, _ := shall["tls"].(map[string]any) // absent is nil
	return sameTLS(u, tls) && sameFields(u, shall, "tls")
}

// resolverName is what Traefik's configuration may call a certResolver.
var resolverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// parseRouteTLS reads [Routes.RouteTLS] into what becomes spec.tls of a route, nil
// where that is not Sluice's to write.
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
	return nil, fmt.Errorf("the routes' TLS %q is not empty, default, resolver:NAME or secret:NAME", s)
}

// sameTLS tells whether the fields of a route's spec.tls that Sluice has written are
// those that it shall. The others, e.g. tls.options, are for others to set; what
// Sluice has once written and shall not any more is known by its field manager.
func sameTLS(u *unstructured.Unstructured, shall map[string]any) bool {
	own := ownTLS(u.GetManagedFields())
	is, _, err := unstructured.NestedMap(u.Object, "spec", "tls")
	if err != nil || len(own) != len(shall) {
		return false
	}
	for field, v := range shall {
		if _, ours := own["f:"+field]; !ours || !reflect.DeepEqual(is[field], v) {
			return false
		}
	}
	return true
}

// ownTLS gives the fields of spec.tls that Sluice has applied, as "f:secretName".
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
			return nil // the API server's own format
		}
		delete(fields.Spec.TLS, ".") // the object itself, where others have a field in it
		return fields.Spec.TLS
	}
	return nil
}
