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

type sources struct {
	deployments appslisters.DeploymentLister
	services    corelisters.ServiceLister
	namespaces  corelisters.NamespaceLister
	knative     cache.GenericLister // nil without Knative
}

// reconcile matches the workloads with the API server. wakeAt is the time of the next run, or
// zero.
func (c *Controller) reconcile(ctx context.Context, listers sources) (wakeAt time.Time) {
	wakeAt, err := c.act(ctx, listers)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("reconcile incomplete, retrying", "error", err)
		wakeAt = earlier(wakeAt, c.now().Add(retryAfter))
	}
	return wakeAt
}

func (c *Controller) act(ctx context.Context, listers sources) (wakeAt time.Time, err error) {
	deployments, err := listers.deployments.List(labels.Everything())
	if err != nil {
		return wakeAt, fmt.Errorf("list Deployments: %w", err)
	}
	services, err := listers.services.List(labels.Everything())
	if err != nil {
		return wakeAt, fmt.Errorf("list Services: %w", err)
	}
	if c.Only != nil {
		deployments = slices.DeleteFunc(deployments, func(d *apps.Deployment) bool { return !c.Only(d.Namespace) })
		services = slices.DeleteFunc(services, func(s *core.Service) bool { return !c.Only(s.Namespace) })
	}
	wakeAt, err = c.roll(ctx, deployments)
	if listers.knative != nil {
		at, failed := c.rollKnative(ctx, listers.knative, services)
		wakeAt, err = earlier(wakeAt, at), errors.Join(err, failed)
	}
	return wakeAt, errors.Join(err,
		c.serve(ctx, c.wanted(deployments, services)),
		c.endNamespaces(ctx, listers.namespaces))
}

// earlier returns the earlier time. A zero time counts as the latest.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func (c *Controller) roll(ctx context.Context, deployments []*apps.Deployment) (wakeAt time.Time, failed error) {
	now := c.now()
	rollouts := make(map[string]rollout, len(deployments))
	for _, d := range deployments {
		key := d.Namespace + "/" + d.Name
		next, at := step(d, c.rollouts[key], now, readyAfter)
		rollouts[key], wakeAt = next, earlier(wakeAt, at)
		if err := c.report(ctx, d, status(d, next, now)); err != nil {
			failed = err
		}
	}
	c.rollouts = rollouts
	return wakeAt, failed
}

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

// statusFields includes zero values, because a merge patch does not change omitted fields.
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

// podFor returns the serving pod of a selected Deployment, or nil.
func (c *Controller) podFor(s *core.Service, deployments []*apps.Deployment) *Pod {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for _, d := range deployments {
		if d.Namespace == s.Namespace && d.DeletionTimestamp == nil && selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			return c.rollouts[d.Namespace+"/"+d.Name].serving
		}
	}
	return nil
}

func (c *Controller) serve(ctx context.Context, wanted map[string]Pod) (failed error) {
	for address, b := range c.backends {
		if _, ok := wanted[address]; !ok {
			b.close() //nolint:contextcheck // close has its own limit
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
