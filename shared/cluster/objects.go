package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
)

// Objects holds an app's objects as they were read. Writes fail if an object has changed since.
type Objects struct {
	Workload

	at      time.Time
	service *corev1.Service
	way                                // for the present kind of routes
	former  way                        // for the former kind of routes
	host    *unstructured.Unstructured // the Middleware for a Knative Service
	strip   *unstructured.Unstructured // the Middleware that removes identity headers on an open route
	ca      *corev1.Secret

	placeholder *corev1.Service // the Service that Knative created; see knative.go
}

// None reports whether Sluice has no object of the app.
func (o Objects) None() bool {
	return !ours(o.deployment) && !ours(o.knative) && !ours(o.service) && o.none() && o.former.none() && o.host == nil && o.strip == nil
}

// Objects reads an app's objects, with a separate call for each.
func (c *Cluster) Objects(ctx context.Context, ref app.Ref) (o Objects, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o.at = c.now()
	if o.Workload, err = c.Workload(ctx, ref); err != nil {
		return Objects{}, err
	}
	if o.service, err = c.services(ref.Namespace).find(ctx, ref.Name); err != nil {
		return Objects{}, err
	}
	o.separatePlaceholder()
	look := func(kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
		return c.objects(kind, ref.Namespace).find(ctx, name)
	}
	if err = c.readWays(&o, ref, look); err != nil {
		return Objects{}, err
	}
	o.ca, err = c.secrets(ref.Namespace).find(ctx, caSecretName)
	return o, err
}

func (c *Cluster) readWays(o *Objects, ref app.Ref, look lookup) (err error) {
	if c.routing == nil {
		return nil
	}
	if o.way, err = readWay(c.routing, ref, look); err != nil {
		return err
	}
	if c.former != nil {
		if o.former, err = formerWay(c.former, c.routing, ref, look); err != nil {
			return err
		}
	}
	if !c.routing.knative() {
		return nil
	}
	if o.host, err = look(middlewareKind(), hostName(ref)); err != nil {
		return err
	}
	o.strip, err = look(middlewareKind(), stripName(ref))
	return err
}

// Inventory holds the objects of all apps that have Sluice's label.
type Inventory struct {
	Workloads

	cluster  *Cluster
	at       time.Time
	services map[app.Ref]*corev1.Service
	cas      map[app.Ref]*corev1.Secret
	others   map[schema.GroupVersionKind]map[app.Ref]*unstructured.Unstructured
}

// Of returns the objects of one app.
func (v Inventory) Of(ref app.Ref) Objects {
	named := func(name string) app.Ref { return app.Ref{Namespace: ref.Namespace, Name: name} }
	o := Objects{Workload: v.Workloads.Of(ref), at: v.at, service: v.services[ref], ca: v.cas[named(caSecretName)]}
	look := func(kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
		return v.others[kind][named(name)], nil
	}
	_ = v.cluster.readWays(&o, ref, look) // look never fails
	o.separatePlaceholder()
	return o
}

// Inventory lists the objects of all apps.
func (c *Cluster) Inventory(ctx context.Context) (v Inventory, err error) {
	v = Inventory{cluster: c, at: c.now(), others: map[schema.GroupVersionKind]map[app.Ref]*unstructured.Unstructured{}}
	if v.Workloads, err = c.Workloads(ctx); err != nil {
		return Inventory{}, err
	}
	if v.services, err = allByRef(ctx, c.services(""), ""); err != nil {
		return Inventory{}, err
	}
	if v.cas, err = allByRef(ctx, c.secrets(""), "metadata.name="+caSecretName); err != nil { // excludes other Secrets
		return Inventory{}, err
	}
	if c.routing != nil {
		err = c.listWay(ctx, v, c.routing)
	}
	if err == nil && c.former != nil {
		if err = c.listWay(ctx, v, c.former); apierrors.IsNotFound(err) { // the cluster no longer has this kind
			err = nil
		}
	}
	return v, err
}

func (c *Cluster) listWay(ctx context.Context, v Inventory, by routing) error {
	kinds := []schema.GroupVersionKind{by.kind()}
	for _, p := range by.gate(gate{}) {
		kinds = append(kinds, p.kind)
	}
	for _, kind := range kinds {
		if v.others[kind] != nil {
			continue
		}
		all, err := allByRef(ctx, c.objects(kind, ""), "")
		if err != nil {
			return err
		}
		v.others[kind] = all
	}
	return nil
}

// Status is the result of the comparison of an object with the desired object.
type Status int

// The values of Status.
const (
	Absent Status = iota
	Differs
	Right
	Outdated // as an earlier release wrote it, or for an earlier generation of the route
)

// Route is the result of the comparison of a route with the desired route.
type Route int

// The values of Route.
const (
	RouteAbsent    Route = iota
	RouteDiffers         // neither of the following
	RouteOpen            // as desired without the gate
	RouteGated           // as desired with the gate
	RouteClosed          // gated, but still without a backend
	RouteOutdated        // gated by an earlier generation of the gate, or as an earlier release wrote it
	RouteElsewhere       // for another host
)

// State is the result of the comparison of an app's objects with its document.
type State struct {
	Deployment Status // Right also if the app has no image yet, or Knative runs it
	Service    Status
	CA         Status
	Middleware Status
	Route      Route

	// Former is the state of the former route. It is RouteClosed if only its gate is left, and
	// RouteAbsent once the app has moved.
	Former Route

	// Untaken is true if the ingress has not accepted the route. With a former route, it is also
	// true until the ingress has had enough time to apply the new one.
	Untaken bool

	// Superseded is true if a Knative Service is ready to replace Sluice's objects.
	Superseded bool

	// HostStale is true if the Middleware for a Knative Service is missing or wrong.
	HostStale bool

	// StripStale is true if an open route's Middleware that removes identity headers is missing
	// or wrong.
	StripStale bool

	// Public is true if a Knative Service is on Knative's public gateway. Hidden is true if Sluice
	// removed it from there.
	Public, Hidden bool
}

// State compares o with the document a. ca is the checkers' CA as PEM.
func (c *Cluster) State(o Objects, a app.App, ca []byte) State {
	s := State{
		Deployment: deploymentStatus(o.deployment, a),
		Service:    serviceStatus(o.service, a),
		CA:         caStatus(o.ca, ca),
		Middleware: c.gateStatus(o, a),
		Route:      routeState(c.routing, o.way, o, a, o.gateOf(a)),
		Former:     c.formerState(o, a),
		Untaken:    o.route != nil && (!c.routing.accepted(o.route) || !o.settled()),
	}
	if o.knative != nil { // deployments change it, and Knative creates the Service
		s.Deployment, s.Service, s.Superseded = Right, Right, o.superseded()
		s.Public, s.Hidden = !hidden(o.knative), hiddenBySluice(o.knative)
	}
	if c.routing.knative() {
		s.HostStale = o.onKnative() && !hostPart(a.Ref()).right(o.host, a.Ref())
		s.StripStale = !a.RequireAPIKey && !stripPart(a.Ref()).right(o.strip, a.Ref())
	}
	return s
}

func statusOf(absent, right bool) Status {
	switch {
	case absent:
		return Absent
	case right:
		return Right
	}
	return Differs
}

// Apply writes all objects that run an app and route requests to it. It writes no routes of gated
// apps and of apps on Knative; the wiring function does.
func (c *Cluster) Apply(ctx context.Context, o Objects, a app.App) error {
	if err := c.EnsureNamespace(ctx, a.Namespace); err != nil {
		return err
	}
	if o.knative == nil {
		if err := c.ApplyService(ctx, o, a); err != nil {
			return err
		}
	}
	if a.Image != "" {
		if err := c.ApplyWorkload(ctx, o.Workload, a); err != nil {
			return err
		}
	}
	if o.onKnative() || a.RequireAPIKey || a.Gate.State != app.Ungated {
		return nil
	}
	return c.ApplyRoute(ctx, o, a, false)
}

// attempts limits the attempts of [Cluster.DeleteIf] while other functions write the objects. The
// pauses before the third and later attempts grow by attemptPause each, and take 5.25 s in all.
const (
	attempts     = 8
	attemptPause = 250 * time.Millisecond
)

// Delete deletes all objects of an app.
func (c *Cluster) Delete(ctx context.Context, ref app.Ref) error {
	return c.DeleteIf(ctx, ref, func(context.Context) (bool, error) { return true, nil })
}

// DeleteIf deletes all objects of an app while allowed returns true. It reads the objects before it
// calls allowed, so objects that are created later remain.
func (c *Cluster) DeleteIf(ctx context.Context, ref app.Ref, allowed func(context.Context) (bool, error)) error {
	for try := range attempts {
		if !reqctx.Sleep(ctx, time.Duration(max(0, try-1))*attemptPause) {
			return fmt.Errorf("delete %s: %w", ref, problem.FromCode(problem.Unavailable).WithCause(ctx.Err()))
		}
		o, err := c.Objects(ctx, ref)
		if err != nil || o.None() {
			return err
		}
		if ok, err := allowed(ctx); err != nil || !ok {
			return err
		}
		if err := c.remove(ctx, o, ref); err != nil && !problem.Is(err, problem.Conflict) {
			return err
		}
	}
	o, err := c.Objects(ctx, ref)
	if err == nil && !o.None() {
		return fmt.Errorf("delete %s: %w", ref, problem.FromCode(problem.Conflict))
	}
	return err
}

// remove deletes the given objects of an app, the route first: the app must never be reachable
// without its gate.
func (c *Cluster) remove(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	if err := c.DeletePreviousRoute(ctx, o, ref); err != nil {
		return err
	}
	if err := withdraw(ctx, c.objects(c.routing.kind(), ref.Namespace), o.route); err != nil {
		return err
	}
	if err := withdraw(ctx, c.services(ref.Namespace), o.service); err != nil {
		return err
	}
	if err := c.removeWorkload(ctx, o.Workload); err != nil {
		return err
	}
	if err := c.RemoveGenerations(ctx, o, ref); err != nil {
		return err
	}
	o.route = nil
	if err := c.removeWay(ctx, c.routing, o.way, ref); err != nil {
		return err
	}
	if err := deleteSeen(ctx, c.objects(middlewareKind(), ref.Namespace), o.host, same); err != nil {
		return err
	}
	return deleteSeen(ctx, c.objects(middlewareKind(), ref.Namespace), o.strip, same)
}
