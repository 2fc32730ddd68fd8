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
	"github.com/sluicegate/sluice/shared/trace"
)

// Objects are what the cluster holds for one app, as they were when looked at.
// Writes made with them fail when the object has changed since.
type Objects struct {
	Workload

	at      time.Time // of the look
	service *corev1.Service
	way                                // as the installation's kind of routes has it
	former  way                        // as the kind before had it
	host    *unstructured.Unstructured // the Middleware that leads to a Knative Service
	strip   *unstructured.Unstructured // the Middleware that removes identity headers on an open route
	ca      *corev1.Secret

	placeholder *corev1.Service // of the app's name, but Knative's
}

// None tells whether the app has no object of its own at all.
func (o Objects) None() bool {
	return !ours(o.deployment) && !ours(o.knative) && !ours(o.service) && o.none() && o.former.none() && o.host == nil && o.strip == nil
}

// Objects looks at an app's objects, one call for each.
func (c *Cluster) Objects(ctx context.Context, ref app.Ref) (o Objects, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o.at = c.now()
	if o.Workload, err = c.Workload(ctx, ref); err != nil {
		return Objects{}, err
	}
	if o.service, err = c.services(ref.Namespace).look(ctx, ref.Name); err != nil {
		return Objects{}, err
	}
	o.tellPlaceholder()
	look := func(kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
		return c.objects(kind, ref.Namespace).look(ctx, name)
	}
	if err = c.lookAtWays(&o, ref, look); err != nil {
		return Objects{}, err
	}
	o.ca, err = c.secrets(ref.Namespace).look(ctx, caSecretName)
	return o, err
}

// lookAtWays looks at what leads requests to an app.
func (c *Cluster) lookAtWays(o *Objects, ref app.Ref, look lookup) (err error) {
	if c.routing == nil {
		return nil
	}
	if o.way, err = wayBy(c.routing, ref, look); err != nil {
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

// Inventory is every labelled object of every app, as it was when listed.
type Inventory struct {
	Workloads

	cluster  *Cluster
	at       time.Time
	services map[app.Ref]*corev1.Service
	cas      map[app.Ref]*corev1.Secret
	others   map[schema.GroupVersionKind]map[app.Ref]*unstructured.Unstructured // by namespace and their own names
}

// Of gives the objects of one app. One that lacks Sluice's label shows as absent;
// [Cluster.Objects] would tell.
func (v Inventory) Of(ref app.Ref) Objects {
	named := func(name string) app.Ref { return app.Ref{Namespace: ref.Namespace, Name: name} }
	o := Objects{Workload: v.Workloads.Of(ref), at: v.at, service: v.services[ref], ca: v.cas[named(caSecretName)]}
	look := func(kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
		return v.others[kind][named(name)], nil
	}
	_ = v.cluster.lookAtWays(&o, ref, look) // look never fails
	o.tellPlaceholder()
	return o
}

// Inventory lists every app's objects: a handful of calls, however many apps.
func (c *Cluster) Inventory(ctx context.Context) (v Inventory, err error) {
	v = Inventory{cluster: c, at: c.now(), others: map[schema.GroupVersionKind]map[app.Ref]*unstructured.Unstructured{}}
	if v.Workloads, err = c.Workloads(ctx); err != nil {
		return Inventory{}, err
	}
	if v.services, err = allByRef(ctx, c.services(""), ""); err != nil {
		return Inventory{}, err
	}
	if v.cas, err = allByRef(ctx, c.secrets(""), "metadata.name="+caSecretName); err != nil { // no other Secret leaves the API server
		return Inventory{}, err
	}
	if c.routing != nil {
		err = c.listWay(ctx, v, c.routing)
	}
	if err == nil && c.former != nil {
		if err = c.listWay(ctx, v, c.former); apierrors.IsNotFound(err) { // a kind that the cluster has lost leads nowhere
			err = nil
		}
	}
	return v, err
}

// listWay lists all that leads requests to apps by one routing.
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

// Status says how an object compares to what it should be.
type Status int

// The statuses of an object.
const (
	Absent Status = iota
	Differs
	Right
	Outdated // as an earlier release wrote it, or for an earlier generation of the route
)

// Route says how an app's route compares to what it should be.
type Route int

// The states of a route.
const (
	RouteAbsent    Route = iota
	RouteDiffers         // neither of the following
	RouteOpen            // as it should be without the gate
	RouteGated           // as it should be with the gate, for now
	RouteClosed          // gated, and leading nowhere: the ingress has taken its gate up, so that it may lead to the app
	RouteOutdated        // gated by an earlier generation of the gate, or as an earlier release wrote it
	RouteElsewhere       // for another host than the app's
)

// State is how an app's objects compare to its document.
type State struct {
	Deployment Status // Right also for an app that has no image yet, or that a Knative Service runs
	Service    Status
	CA         Status // the namespace's copy of the checker's CA
	Middleware Status // of the gate's objects together
	Route      Route

	// Former is the route by the kind that the installation had before, as that compares:
	// closed while there is its gate alone, and absent once the app is moved.
	Former Route

	// Untaken tells that the ingress has not taken up the route yet, as far as it says, or
	// has had no time to act on it, where there is a former one.
	Untaken bool

	// Superseded tells that a Knative Service is ready to take over from the Deployment
	// and the Service that Sluice has made.
	Superseded bool

	// HostStale tells that the Middleware that leads to a Knative Service is missing or wrong.
	HostStale bool

	// StripStale reports whether an open route lacks the Middleware that removes identity
	// headers. The route serves the app without it.
	StripStale bool

	// Public tells that a Knative Service is not kept off Knative's public gateway, which
	// leads to the app without the gate; Hidden, that Sluice keeps it off.
	Public, Hidden bool
}

// State compares. ca is the PEM of the checker's CA certificates.
func (c *Cluster) State(o Objects, a app.App, ca []byte) State {
	s := State{
		Deployment: deploymentStatus(o.deployment, a),
		Service:    serviceStatus(o.service, a),
		CA:         caStatus(o.ca, ca),
		Middleware: c.gateStatus(o, a),
		Route:      routeState(c.routing, o.way, o, a, o.gateOf(a)),
		Former:     c.formerState(o, a),
		Untaken:    o.route != nil && (!c.routing.taken(o.route) || !o.settled()),
	}
	if o.knative != nil { // deployments change it, and Knative makes the Service
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

// Apply makes everything that runs an app and lets requests in: its namespace,
// Service, Deployment (once it has an image) and route; a Knative Service of its name
// stands for the first two. An app whose gate is asked for gets no route here, nor does
// one that Knative runs: only wiring makes those, with their Middlewares. Problem:
// conflict when something has changed since o was looked at.
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

// attempts is the number of tries of [Cluster.DeleteIf] while functions write the objects that
// it deletes. From the third try on, the pause before a try grows by attemptPause: 5 s in all.
const (
	attempts     = 8
	attemptPause = 250 * time.Millisecond
)

// Delete deletes whatever an app has in the cluster, and looks again until there is
// nothing left.
func (c *Cluster) Delete(ctx context.Context, ref app.Ref) error {
	return c.DeleteIf(ctx, ref, func(context.Context) (bool, error) { return true, nil })
}

// DeleteIf is Delete while the condition allows it. The condition is checked between the read
// of the objects and their deletion, which deletes no others: so objects that are made after
// the condition was checked stay.
func (c *Cluster) DeleteIf(ctx context.Context, ref app.Ref, allowed func(context.Context) (bool, error)) error {
	for try := range attempts {
		if !trace.Sleep(ctx, time.Duration(max(0, try-1))*attemptPause) {
			return fmt.Errorf("delete %s: %w", ref, problem.Of(problem.Unavailable).Because(ctx.Err()))
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
		return fmt.Errorf("delete %s: %w", ref, problem.Of(problem.Conflict))
	}
	return err
}

// remove deletes the objects of an app that were looked at, the route first, so
// that the app never answers without its gate. What has gone meanwhile is fine;
// what has been replaced by another object of that name is a conflict.
func (c *Cluster) remove(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	if err := c.RemoveFormer(ctx, o, ref); err != nil {
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
