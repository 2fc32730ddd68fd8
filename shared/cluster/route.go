package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluicegate/sluice/shared/app"
)

// ApplyRoute makes the app's IngressRoute send its host to its Service, through
// the gate when gated is set: then the Middleware must be there already, because
// Traefik answers 404 for a route that names a missing one.
//
// Server-side apply alone would also write over a route that somebody has made
// since o was looked at, so one that was absent is first created, empty, which
// fails if it is there by now. Problem: conflict; look again.
func (c *Cluster) ApplyRoute(ctx context.Context, o Objects, a app.App, gated bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if len(c.entryPoints) == 0 { // Traefik would take all of its own
		return fmt.Errorf("apply route %s: the entry points are not set", a.Ref())
	}
	if invalid := validation.IsDNS1123Subdomain(a.Host); len(invalid) > 0 { // nothing else may get into the rule
		return fmt.Errorf("apply route %s: host %q: %s", a.Ref(), a.Host, invalid[0])
	}
	routes := c.ingressRoutes(a.Namespace)
	seen := o.route
	if seen == nil {
		var err error
		if seen, err = routes.write(ctx, owned(a.Ref(), a.Name, map[string]any{"routes": []any{}}, seen)); err != nil {
			return err
		}
	}
	return routes.apply(ctx, owned(a.Ref(), a.Name, c.routeSpec(o, a, gated), seen))
}

// What the rules for preflights and WebSockets of a gated app begin with.
const (
	preflights = "Method(`OPTIONS`) && HeaderRegexp(`Access-Control-Request-Method`, `.*`) && "
	websockets = "HeaderRegexp(`Upgrade`, `(?i)^websocket$`) && Method(`GET`) && "
)

// routeSpec holds the fields of a route that are Sluice's. The gate comes before
// anything else that is done to a request.
//
// A gated route has two more rules: for CORS preflights, which pass without a key and
// so may carry no body, and for WebSockets, which get back the Upgrade that the gate
// takes from everything. Traefik tries longer rules first, so these two begin with what
// is cheapest to tell.
func (c *Cluster) routeSpec(o Objects, a app.App, gated bool) map[string]any {
	host := "Host(`" + a.Host + "`)"
	rules := []any{routeRule(o, a, host)}
	if gated {
		ref := a.Ref()
		rules = []any{
			routeRule(o, a, host, gateName(ref)),
			routeRule(o, a, preflights+host, preflightName(ref)),
			routeRule(o, a, websockets+host, gateName(ref), websocketName(ref)),
		}
	}
	entryPoints := make([]any, len(c.entryPoints))
	for i, e := range c.entryPoints {
		entryPoints[i] = e
	}
	spec := map[string]any{"entryPoints": entryPoints, "routes": rules}
	if c.tls != nil {
		spec["tls"] = maps.Clone(c.tls)
	}
	return spec
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

func (c *Cluster) routeState(o Objects, a app.App) Route {
	u := o.route
	switch {
	case u == nil:
		return RouteAbsent
	case !hasAll(u.GetLabels(), labels(a.Name)), !sameTLS(u, c.tls):
		return RouteDiffers
	case sameRoute(u, c.routeSpec(o, a, true)):
		return RouteGated
	case sameRoute(u, c.routeSpec(o, a, false)):
		return RouteOpen
	}
	return RouteDiffers
}

// sameRoute compares the fields that are Sluice's, exactly, but for TLS: one route more
// would be a way around the gate.
func sameRoute(u *unstructured.Unstructured, shall map[string]any) bool {
	spec, ok := u.Object["spec"].(map[string]any)
	if !ok {
		return false
	}
	for field, v := range shall {
		if field != "tls" && !reflect.DeepEqual(spec[field], v) {
			return false
		}
	}
	return true
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
	case s == "default": // an empty spec.tls says the same, but cannot be applied where there was a field in it
		return map[string]any{"store": map[string]any{"name": "default"}}, nil
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
