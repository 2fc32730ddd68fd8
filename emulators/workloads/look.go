package workloads

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/sluicegate/sluice/emulators/internal/program"
)

// sources are what the API server holds, as last seen.
type sources struct {
	deployments appslisters.DeploymentLister
	services    corelisters.ServiceLister
	namespaces  corelisters.NamespaceLister
	knative     cache.GenericLister // nil where Knative Services are not served
}

// look brings everything in line with what the API server holds. again is when
// to look next even if nothing changes, zero for never.
func (c *Controller) look(ctx context.Context, see sources) (again time.Time) {
	again, err := c.act(ctx, see)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("not all is in line, trying again", "error", err)
		again = earlier(again, c.now().Add(retryAfter))
	}
	return again
}

// act does what one look finds to do, as much of it as goes.
func (c *Controller) act(ctx context.Context, see sources) (again time.Time, err error) {
	deployments, err := see.deployments.List(labels.Everything())
	if err != nil {
		return again, fmt.Errorf("list Deployments: %w", err)
	}
	services, err := see.services.List(labels.Everything())
	if err != nil {
		return again, fmt.Errorf("list Services: %w", err)
	}
	if c.Only != nil {
		deployments = slices.DeleteFunc(deployments, func(d *apps.Deployment) bool { return !c.Only(d.Namespace) })
		services = slices.DeleteFunc(services, func(s *core.Service) bool { return !c.Only(s.Namespace) })
	}
	again, err = c.roll(ctx, deployments)
	if see.knative != nil {
		at, failed := c.rollKnative(ctx, see.knative, services)
		again, err = earlier(again, at), errors.Join(err, failed)
	}
	return again, errors.Join(err,
		c.serve(ctx, c.wanted(deployments, services)),
		c.endNamespaces(ctx, see.namespaces))
}

// earlier gives the earlier of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// roll moves every rollout on and writes the statuses that changed.
func (c *Controller) roll(ctx context.Context, deployments []*apps.Deployment) (again time.Time, failed error) {
	now := c.now()
	rollouts := make(map[string]rollout, len(deployments))
	for _, d := range deployments {
		key := d.Namespace + "/" + d.Name
		next, at := step(d, c.rollouts[key], now, readyAfter)
		rollouts[key], again = next, earlier(again, at)
		if err := c.report(ctx, d, status(d, next, now)); err != nil {
			failed = err
		}
	}
	c.rollouts = rollouts // those of Deployments that are gone are forgotten
	return again, failed
}

// report writes a status where it differs from the one that was read.
func (c *Controller) report(ctx context.Context, d *apps.Deployment, s apps.DeploymentStatus) error {
	if equality.Semantic.DeepEqual(d.Status, s) || d.DeletionTimestamp != nil {
		return nil
	}
	deployments := c.dynamic.Resource(apps.SchemeGroupVersion.WithResource("deployments")).Namespace(d.Namespace)
	if _, err := program.WriteStatus(ctx, deployments, d.Name, statusFields(s)); !kerrors.IsNotFound(err) {
		return err
	}
	return nil
}

// statusFields has every number, zeros too: in a merge patch a field that is
// left out stays as it was.
func statusFields(s apps.DeploymentStatus) map[string]any {
	return map[string]any{
		"observedGeneration":  s.ObservedGeneration,
		"replicas":            s.Replicas,
		"updatedReplicas":     s.UpdatedReplicas,
		"readyReplicas":       s.ReadyReplicas,
		"availableReplicas":   s.AvailableReplicas,
		"unavailableReplicas": s.UnavailableReplicas,
		"conditions":          s.Conditions,
	}
}

// wanted gives the pod for each address of a Service that has one.
func (c *Controller) wanted(deployments []*apps.Deployment, services []*core.Service) map[string]Pod {
	wanted := map[string]Pod{}
	for _, s := range services {
		if len(s.Spec.Selector) == 0 || net.ParseIP(s.Spec.ClusterIP) == nil || s.DeletionTimestamp != nil {
			continue
		}
		pod := c.podFor(s, deployments)
		if pod == nil {
			continue
		}
		for _, p := range s.Spec.Ports {
			wanted[net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(p.Port)))] = *pod
		}
	}
	return wanted
}

// podFor finds the serving pod of a Deployment that a Service selects; nil
// without one.
func (c *Controller) podFor(s *core.Service, deployments []*apps.Deployment) *Pod {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for _, d := range deployments {
		if d.Namespace == s.Namespace && d.DeletionTimestamp == nil && selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			return c.rollouts[d.Namespace+"/"+d.Name].serving
		}
	}
	return nil
}

// serve makes the backends the wanted ones.
func (c *Controller) serve(ctx context.Context, wanted map[string]Pod) (failed error) {
	for address, b := range c.backends {
		if _, ok := wanted[address]; !ok {
			b.close() //nolint:contextcheck // it has a limit of its own
			delete(c.backends, address)
		}
	}
	for address, pod := range wanted {
		if b, ok := c.backends[address]; ok {
			b.pod.Store(&pod)
			continue
		}
		b, err := listen(ctx, address, pod, c.log)
		if err != nil {
			failed = err
			continue
		}
		c.backends[address] = b
	}
	return failed
}
