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

// RouteKind is what an installation's ingress is told of apps by.
type RouteKind string

// The kinds of routes.
const (
	TraefikRoutes        RouteKind = "traefik"         // Traefik's IngressRoute, through Traefik's Middlewares
	GatewayTraefikRoutes RouteKind = "gateway-traefik" // the Gateway API's HTTPRoute, through Traefik's Middlewares
	GatewayEnvoyRoutes   RouteKind = "gateway-envoy"   // the Gateway API's HTTPRoute, under Envoy Gateway's SecurityPolicy
)

// RouteKinds are all of them, the default first.
func RouteKinds() []RouteKind {
	return []RouteKind{TraefikRoutes, GatewayTraefikRoutes, GatewayEnvoyRoutes}
}

// routing is how one kind of ingress is told of an app's route and of the gate in front
// of it. What a routing describes is compared, written, moved and deleted here, in one way
// for all; another ingress is another implementation in a file of its own.
type routing interface {
	// kind is that of the routes.
	kind() schema.GroupVersionKind

	// blank is the spec of a route that leads nowhere and is valid all the same.
	blank() map[string]any

	// spec holds the fields of an app's route that are Sluice's: all of them, with what the
	// API server would fill in. o is what is there, for an ingress that takes a gate up at
	// a time of its own. by is the gate of the route, nil for none.
	spec(o Objects, a app.App, by *gate) map[string]any

	// closed is what spec is as long as a gate is not taken up, and leads nowhere; nil for an
	// ingress that needs no such thing.
	closed(a app.App) map[string]any

	// leads reports whether a rule of a route is for the host, or the route has no rules.
	leads(route *unstructured.Unstructured, host string) bool

	// same tells whether those fields of a route are as they shall be.
	same(route *unstructured.Unstructured, shall map[string]any) bool

	// gate are the objects that ask the checker about an app's requests, in the order in
	// which they are written, before the route.
	gate(g gate) []part

	// generation returns the generation of the gate that an app has, "" for a gate without
	// one and for none.
	generation(w way, ref app.Ref) string

	// taken tells whether the ingress says that it has taken up a route. One that never
	// says so has.
	taken(route *unstructured.Unstructured) bool

	// knative tells whether routes lead to apps that Knative runs.
	knative() bool
}

// way is an app's route, and the objects of its gate; nil for each that is absent. Objects
// of a generation that the route does not name are not among them.
type way struct {
	route      *unstructured.Unstructured
	gate       map[partID]*unstructured.Unstructured
	generation string // of the gate
}

func (w way) none() bool {
	for _, u := range w.gate {
		if u != nil {
			return false
		}
	}
	return !ours(w.route)
}

// lookup finds an object, nil when there is none.
type lookup func(kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error)

// wayBy finds what there is of an app's way.
func wayBy(by routing, ref app.Ref, look lookup) (w way, err error) {
	if w.route, err = look(by.kind(), ref.Name); err != nil {
		return way{}, err
	}
	w.gate = map[partID]*unstructured.Unstructured{}
	lookAt := func(g gate) error {
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
	if err := lookAt(gate{ref: ref}); err != nil {
		return way{}, err
	}
	w.generation = by.generation(w, ref)
	if err := lookAt(gate{ref: ref, generation: w.generation}); err != nil {
		return way{}, err
	}
	return w, nil
}

// gateOf returns the gate that the app's route is to have. One that is in place keeps its
// generation.
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

// Generation returns the generation of the gate that the app's route has, or "".
func (o Objects) Generation() string { return o.generation }

// ApplyRoute makes the app's route send its host to its Service, through the gate when
// gated is set: then the gate's objects must be there already, because Traefik answers 404
// for a route that names a missing Middleware. What gates a route without being named by
// it goes with an open one.
//
// Server-side apply alone would also write over a route that somebody has made
// since o was looked at, so one that was absent is first created, blank, which
// fails if it is there by now. Problem: conflict; look again.
func (c *Cluster) ApplyRoute(ctx context.Context, o Objects, a app.App, gated bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.routing == nil {
		return fmt.Errorf("apply route %s: no kind of routes is set", a.Ref())
	}
	if invalid := validation.IsDNS1123Subdomain(a.Host); len(invalid) > 0 { // nothing else may get into the rule
		return fmt.Errorf("apply route %s: host %q: %s", a.Ref(), a.Host, invalid[0])
	}
	if foreign(o.route) {
		return taken(o.route.GetKind(), a.Ref())
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

// RemoveRoute deletes the app's route. The objects of its gate stay.
func (c *Cluster) RemoveRoute(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.routing == nil {
		return fmt.Errorf("remove route %s: no kind of routes is set", ref)
	}
	return withdraw(ctx, c.objects(c.routing.kind(), ref.Namespace), o.route)
}

// RemoveFormer deletes what an app had by the kind of routes that the installation had
// before, but for what serves the present kind as well. The route goes with the first call
// and the gate with the next: an ingress learns of the two by ways of their own, and one
// that heard of the gate's end first would let everybody in.
func (c *Cluster) RemoveFormer(ctx context.Context, o Objects, ref app.Ref) error {
	if c.former == nil {
		return nil
	}
	if o.former.route != nil {
		return deleteSeen(ctx, c.objects(c.former.kind(), ref.Namespace), o.former.route, same)
	}
	return c.removeWay(ctx, c.former, o.former, ref)
}

// removeWay deletes an app's route and then its gate.
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

// formerWay leaves out what the present kind uses as well: that is no leftover.
func formerWay(former, present routing, ref app.Ref, look lookup) (way, error) {
	return wayBy(former, ref, func(kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
		named := gate{ref: ref, generation: generationIn(name, ref)}
		shared := kind == present.kind() && name == ref.Name ||
			slices.ContainsFunc(present.gate(named), func(p part) bool { return p.kind == kind && p.name == name })
		if shared {
			return nil, nil
		}
		u, err := look(kind, name)
		if err != nil || u == nil || !hasAll(u.GetLabels(), managed()) { // somebody else's
			return nil, err
		}
		return u, nil
	})
}

// routeState compares an app's route with the route that it needs with the gate g, or without it.
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

// attached tells whether there is an object of the gate that a route need not name.
func (w way) attached(by routing, ref app.Ref) bool {
	for _, p := range by.gate(gate{ref: ref}) {
		if p.unnamed && w.gate[p.id()] != nil {
			return true
		}
	}
	return false
}

// formerState is how an app's former route compares to what it was; closed where nothing is
// left of it but its gate.
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

// settleTime is how long a new route stands beside a former one at least: what an ingress
// says it has taken up need not be what it acts on yet, and Traefik says nothing of an
// IngressRoute, and puts off changes by 2 s when there are many (providersThrottleDuration).
// The proof cannot tell, since the former route answers it just as well. A clock that is
// not the API server's makes it longer or shorter; shorter, a key may meet a 404.
const settleTime = 10 * time.Second

// settled tells whether the route has been there for that long, where a former one is.
func (o Objects) settled() bool {
	return o.former.route == nil || o.at.Sub(o.route.GetCreationTimestamp().Time) >= settleTime
}

// sameFields compares the fields that are Sluice's, exactly: one route more would be a way
// around the gate.
func sameFields(u *unstructured.Unstructured, shall map[string]any, but ...string) bool {
	spec, ok := u.Object["spec"].(map[string]any)
	if !ok {
		return false
	}
	for field, v := range shall {
		if !slices.Contains(but, field) && !reflect.DeepEqual(spec[field], v) {
			return false
		}
	}
	return true
}
