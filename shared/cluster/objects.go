package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
)

// Objects are what the cluster holds for one app, as they were when looked at.
// Writes made with them fail when the object has changed since.
type Objects struct {
	deployment *appsv1.Deployment
	knative    *unstructured.Unstructured // in the place of a Deployment and a Service
	service    *corev1.Service
	route      *unstructured.Unstructured
	gate       [gateSize]*unstructured.Unstructured // its Middlewares, in the order of gateNames
	host       *unstructured.Unstructured           // the Middleware that leads to a Knative Service
	ca         *corev1.Secret

	placeholder *corev1.Service // of the app's name, but Knative's
}

// None tells whether the app has no object of its own at all.
func (o Objects) None() bool {
	return o.deployment == nil && o.knative == nil && o.service == nil && o.route == nil && o.gate == [gateSize]*unstructured.Unstructured{} && o.host == nil
}

// Objects looks at an app's objects, one call for each.
func (c *Cluster) Objects(ctx context.Context, ref app.Ref) (Objects, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var o Objects
	opts := metav1.GetOptions{}
	deployment, err := c.deployments(ref.Namespace).get(ctx, ref.Name)
	if err := keep(&o.deployment, deployment, err); err != nil {
		return Objects{}, fmt.Errorf("look at deployment %s: %w", ref, err)
	}
	knative, err := c.dynamic.Resource(knativeServices()).Namespace(ref.Namespace).Get(ctx, ref.Name, opts)
	if err := keep(&o.knative, knative, err); err != nil {
		return Objects{}, fmt.Errorf("look at knative service %s: %w", ref, err)
	}
	service, err := c.services(ref.Namespace).get(ctx, ref.Name)
	if err := keep(&o.service, service, err); err != nil {
		return Objects{}, fmt.Errorf("look at service %s: %w", ref, err)
	}
	o.tellPlaceholder()
	route, err := c.dynamic.Resource(ingressRoutes()).Namespace(ref.Namespace).Get(ctx, ref.Name, opts)
	if err := keep(&o.route, route, err); err != nil {
		return Objects{}, fmt.Errorf("look at route %s: %w", ref, err)
	}
	for i, name := range gateNames(ref) {
		if err := c.lookAtMiddleware(ctx, &o.gate[i], name, ref); err != nil {
			return Objects{}, err
		}
	}
	if err := c.lookAtMiddleware(ctx, &o.host, hostName(ref), ref); err != nil {
		return Objects{}, err
	}
	ca, err := c.secrets(ref.Namespace).get(ctx, caSecretName)
	if err := keep(&o.ca, ca, err); err != nil {
		return Objects{}, fmt.Errorf("look at the CA of %s: %w", ref, err)
	}
	return o, nil
}

func (c *Cluster) lookAtMiddleware(ctx context.Context, into **unstructured.Unstructured, name string, ref app.Ref) error {
	u, err := c.dynamic.Resource(middlewares()).Namespace(ref.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err := keep(into, u, err); err != nil {
		return fmt.Errorf("look at middleware %s of %s: %w", name, ref, err)
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
)

// Route says how an app's route compares to what it should be.
type Route int

// The states of a route.
const (
	RouteAbsent  Route = iota
	RouteDiffers       // neither of the following
	RouteOpen          // as it should be without the gate
	RouteGated         // as it should be with the gate
)

// State is how an app's objects compare to its document.
type State struct {
	Deployment Status // Right also for an app that has no image yet, or that a Knative Service runs
	Service    Status
	CA         Status // the namespace's copy of the checker's CA
	Middleware Status // of the gate's Middlewares together
	Route      Route

	// Superseded tells that a Knative Service is ready to take over from the Deployment
	// and the Service that Sluice has made.
	Superseded bool

	// HostStale tells that the Middleware that leads to a Knative Service is missing or wrong.
	HostStale bool

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
		Middleware: c.gateStatus(o, a.Ref()),
		Route:      c.routeState(o, a),
	}
	if o.knative != nil { // deployments change it, and Knative makes the Service
		s.Deployment, s.Service, s.Superseded = Right, Right, o.superseded()
		s.Public, s.Hidden = !hidden(o.knative), hiddenBySluice(o.knative)
	}
	s.HostStale = o.onKnative() && !hostPart(a.Ref()).right(o.host, a.Ref())
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
