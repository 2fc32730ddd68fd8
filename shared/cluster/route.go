package cluster

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluicegate/sluice/shared/app"
)

// RouteKind is the kind of the objects that route requests to apps.
type RouteKind string

// The kinds of routes.
const (
	TraefikRoutes        RouteKind = "traefik"         // IngressRoute, gated by Traefik's Middlewares
	GatewayTraefikRoutes RouteKind = "gateway-traefik" // HTTPRoute of the Gateway API, gated by Traefik's Middlewares
	GatewayEnvoyRoutes   RouteKind = "gateway-envoy"   // HTTPRoute of the Gateway API, gated by Envoy Gateway's SecurityPolicy
)

// RouteKinds returns all kinds, the default first.
func RouteKinds() []RouteKind {
	return []RouteKind{TraefikRoutes, GatewayTraefikRoutes, GatewayEnvoyRoutes}
}

// routing describes an app's route and gate for one kind of ingress.
type routing interface {
	kind() schema.GroupVersionKind

	// blank returns the spec of a valid route without a backend.
	blank() map[string]any

	// spec returns Sluice's fields of an app's route, including API server defaults. It may depend
	// on the existing objects o, because some kinds of ingress accept a gate with a delay. by is
	// the gate, or nil for an open route.
	spec(o Objects, a app.App, by *gate) map[string]any

	// closed returns the gated spec without a backend, for the time until the ingress has accepted
	// the gate. It returns nil if the ingress does not need it.
	closed(a app.App) map[string]any

	// leads reports whether the route has a rule for the host, or no rules at all.
	leads(route *unstructured.Unstructured, host string) bool

	same(route *unstructured.Unstructured, desired map[string]any) bool

	// gate returns the objects of an app's gate in the order in which they are written, before the
	// route.
	gate(g gate) []part

	generation(w way, ref app.Ref) string

	// accepted reports whether the ingress has accepted a route. It returns true if the ingress
	// does not report acceptance.
	accepted(route *unstructured.Unstructured) bool

	knative() bool
}

// way holds an app's route and gate objects for one kind of route; missing objects are nil. It
// excludes generations that the route does not name.
type way struct {
	route      *unstructured.Unstructured
	gate       map[partID]*unstructured.Unstructured
	generation string
}

func (w way) none() bool {
	for _, u := range w.gate {
		if u != nil {
			return false
		}
	}
	return !ours(w.route)
}

type lookup func(kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error)

func readWay(by routing, ref app.Ref, look lookup) (w way, err error) {
	if w.route, err = look(by.kind(), ref.Name); err != nil {
		return way{}, err
	}
	w.gate = map[partID]*unstructured.Unstructured{}
	readGate := func(g gate) error {
		for _, p := range by.gate(g) {
			if _, known := w.gate[p.id()]; known {
				continue
			}
			if w.gate[p.id()], err = look(p.kind, p.name); err != nil {
				return err
			}
		}
		return nil
	}
	if err := readGate(gate{ref: ref}); err != nil {
		return way{}, err
	}
	w.generation = by.generation(w, ref)
	if err := readGate(gate{ref: ref, generation: w.generation}); err != nil {
		return way{}, err
	}
	return w, nil
}

// gateOf returns the desired gate of the app's route. An engaged gate keeps its generation.
func (o Objects) gateOf(a app.App) gate {
	g := gate{ref: a.Ref(), generation: a.Gate.Generation(), refuse: a.Preflight == app.PreflightRefuse}
	switch {
	case !a.RequireAPIKey:
		g.generation = o.generation
	case a.Gate.State == app.Engaged:
		g.generation = cmp.Or(o.generation, o.former.generation, g.generation)
	}
	return g
}

// Generation returns the generation of the present gate of the app's route, or "".
func (o Objects) Generation() string { return o.generation }

// ApplyRoute writes the app's route from its host to its Service. If gated is true, the route goes
// through the gate, whose objects must exist. Otherwise ApplyRoute deletes gate objects that apply
// to the route without being named in it.
//
// Server-side apply could overwrite a route that was created after o was read. A missing route is
// therefore first created without a backend, which fails if it exists.
func (c *Cluster) ApplyRoute(ctx context.Context, o Objects, a app.App, gated bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.routing == nil {
		return fmt.Errorf("apply route %s: kind of routes is not set", a.Ref())
	}
	if invalid := validation.IsDNS1123Subdomain(a.Host); len(invalid) > 0 { // the host becomes part of a rule
		return fmt.Errorf("apply route %s: host %q: %s", a.Ref(), a.Host, invalid[0])
	}
	if foreign(o.route) {
		return nameTaken(o.route.GetKind(), a.Ref())
	}
	routes := c.objects(c.routing.kind(), a.Namespace)
	seen := o.route
	if seen == nil {
		var err error
		if seen, err = routes.write(ctx, owned(a.Ref(), a.Name, c.routing.blank(), seen)); err != nil {
			return err
		}
	}
	var by *gate
	if gated {
		by = new(o.gateOf(a))
	}
	if err := routes.apply(ctx, owned(a.Ref(), a.Name, c.routing.spec(o, a, by), seen)); err != nil || gated {
		return err
	}
	for _, p := range c.routing.gate(gate{ref: a.Ref()}) {
		if p.unnamed {
			if err := deleteSeen(ctx, c.objects(p.kind, a.Namespace), o.gate[p.id()], only); err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveRoute deletes the app's route, but not its gate.
func (c *Cluster) RemoveRoute(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.routing == nil {
		return fmt.Errorf("remove route %s: kind of routes is not set", ref)
	}
	return withdraw(ctx, c.objects(c.routing.kind(), ref.Namespace), o.route)
}

// DeletePreviousRoute deletes the former route. If that does not exist, it deletes the gate of the former
// route: the gate must outlive the route.
func (c *Cluster) DeletePreviousRoute(ctx context.Context, o Objects, ref app.Ref) error {
	if c.former == nil {
		return nil
	}
	if o.former.route != nil {
		return deleteSeen(ctx, c.objects(c.former.kind(), ref.Namespace), o.former.route, same)
	}
	return c.removeWay(ctx, c.former, o.former, ref)
}

func (c *Cluster) removeWay(ctx context.Context, by routing, w way, ref app.Ref) error {
	if err := withdraw(ctx, c.objects(by.kind(), ref.Namespace), w.route); err != nil {
		return err
	}
	for id, u := range w.gate {
		if err := deleteSeen(ctx, c.objects(id.kind, ref.Namespace), u, same); err != nil {
			return err
		}
	}
	return nil
}

// formerWay reads the former route and its gate. It excludes objects that the present kind of route
// also uses.
func formerWay(former, present routing, ref app.Ref, look lookup) (way, error) {
	return readWay(former, ref, func(kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
		named := gate{ref: ref, generation: generationIn(name, ref)}
		shared := kind == present.kind() && name == ref.Name ||
			slices.ContainsFunc(present.gate(named), func(p part) bool { return p.kind == kind && p.name == name })
		if shared {
			return nil, nil
		}
		u, err := look(kind, name)
		if err != nil || u == nil || !hasAll(u.GetLabels(), managed()) { // not Sluice's
			return nil, err
		}
		return u, nil
	})
}

func routeState(by routing, w way, o Objects, a app.App, g gate) Route {
	u := w.route
	switch {
	case u == nil:
		return RouteAbsent
	case !hasAll(u.GetLabels(), labels(a.Name)):
		return RouteDiffers
	case !by.leads(u, a.Host):
		return RouteElsewhere
	case by.same(u, by.spec(o, a, &g)):
		return RouteGated
	case by.closed(a) != nil && by.same(u, by.closed(a)):
		return RouteClosed
	case by.same(u, by.spec(o, a, nil)) && !w.attached(by, a.Ref()):
		return RouteOpen
	}
	for _, refuse := range []bool{false, true} {
		if by.same(u, by.spec(o, a, &gate{ref: g.ref, generation: w.generation, refuse: refuse})) {
			return RouteOutdated
		}
	}
	return RouteDiffers
}

func (w way) attached(by routing, ref app.Ref) bool {
	for _, p := range by.gate(gate{ref: ref}) {
		if p.unnamed && w.gate[p.id()] != nil {
			return true
		}
	}
	return false
}

func (c *Cluster) formerState(o Objects, a app.App) Route {
	switch {
	case c.former == nil || o.former.none():
		return RouteAbsent
	case o.former.route == nil:
		return RouteClosed
	}
	was := o
	was.way = o.former
	g := o.gateOf(a)
	g.generation = o.former.generation
	return routeState(c.former, o.former, was, a, g)
}

// settleTime is the minimum age of a new route before the former route is deleted. Traefik does not
// report acceptance, and delays changes by 2 s under load (providersThrottleDuration). The proof
// cannot detect this delay, because the former route returns it too. If this process's clock is
// ahead of the API server's, clients may get 404.
const settleTime = 10 * time.Second

func (o Objects) settled() bool {
	return o.former.route == nil || o.at.Sub(o.route.GetCreationTimestamp().Time) >= settleTime
}

// sameFields compares whole fields, because an additional rule would bypass the gate.
func sameFields(u *unstructured.Unstructured, desired map[string]any, but ...string) bool {
	spec, ok := u.Object["spec"].(map[string]any)
	if !ok {
		return false
	}
	for field, v := range desired {
		if !slices.Contains(but, field) && !reflect.DeepEqual(spec[field], v) {
			return false
		}
	}
	return true
}
