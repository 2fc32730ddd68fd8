// Package workloads stands in for what runs pods: it watches Deployments and
// Services, is the pods of a Service on its cluster IP (see package kube: those
// are loopback addresses), and reports status as the deployment controller and a
// kubelet would. Every image holds the same app, which shows what reached it
// ([Echo]); one whose tag is "broken" never becomes ready, and one whose path begins with
// "missing/" cannot be pulled.
//
// Where the API server serves Knative Services, it is Knative too (see knative.go).
//
// A Service of whose Deployment no pod is ready refuses connections, as kube-proxy
// does. It also does the namespace controller's part: a namespace that is deleted
// is emptied and goes away.
//
// What serves is known to the process alone. After a restart of it, a Deployment
// that its status calls available serves its current template at once; one in
// the middle of a rollout begins it again, without the former pod.
package workloads

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	readyAfter = 200 * time.Millisecond // from a new pod template to ready pods
	retryAfter = time.Second            // when a look had errors
)

// Controller runs the workloads of one API server.
type Controller struct {
	// Only reports whether the controller runs the workloads of a namespace. It leaves all
	// other namespaces alone, and does not stand in for Knative. nil is every namespace.
	Only func(namespace string) bool

	api       kubernetes.Interface
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
	log       *slog.Logger
	now       func() time.Time

	kick     chan struct{} // something changed
	synced   atomic.Bool
	rollouts map[string]rollout  // by namespace/name; only Run's goroutine uses it, like the next
	backends map[string]*backend // by address
	knative  *knative            // nil where Knative Services are not served
}

// New makes a controller that speaks to the API server as config says.
func New(config *rest.Config, log *slog.Logger) (*Controller, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400 // tests deploy many apps at once
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return &Controller{
		api: api, dynamic: dyn, discovery: api.Discovery(), log: log, now: time.Now,
		kick:     make(chan struct{}, 1),
		rollouts: map[string]rollout{},
		backends: map[string]*backend{},
	}, nil
}

// Ready tells whether everything that was there at the start is known.
func (c *Controller) Ready() bool { return c.synced.Load() }

// Run runs workloads until ctx ends.
func (c *Controller) Run(ctx context.Context) (err error) {
	factory := informers.NewSharedInformerFactory(c.api, 0)
	see := sources{
		deployments: factory.Apps().V1().Deployments().Lister(),
		services:    factory.Core().V1().Services().Lister(),
		namespaces:  factory.Core().V1().Namespaces().Lister(),
	}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Apps().V1().Deployments().Informer(),
		factory.Core().V1().Services().Informer(),
		factory.Core().V1().Namespaces().Informer(),
	} {
		if _, err := informer.AddEventHandler(c.changes()); err != nil {
			return fmt.Errorf("watch workloads: %w", err)
		}
	}
	if c.Only == nil {
		if c.knative, see.knative, err = c.startKnative(ctx); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown() // waits for what Start started; ctx has ended by then
	defer c.closeAll()       //nolint:contextcheck // ctx has ended by then
	factory.WaitForCacheSync(ctx.Done())
	if c.knative != nil {
		defer c.knative.close() //nolint:contextcheck // ctx has ended by then
		c.knative.factory.WaitForCacheSync(ctx.Done())
	}
	if ctx.Err() != nil {
		return nil
	}
	c.loop(ctx, see)
	return nil
}

// changes tells the loop of every change.
func (c *Controller) changes() cache.ResourceEventHandler {
	kick := func() {
		select {
		case c.kick <- struct{}{}:
		default: // it knows already
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { kick() },
		UpdateFunc: func(any, any) { kick() },
		DeleteFunc: func(any) { kick() },
	}
}

// loop looks at everything after each change and when time brings something.
func (c *Controller) loop(ctx context.Context, see sources) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.kick:
		case <-timer.C:
		}
		wait := time.Hour
		if again := c.look(ctx, see); !again.IsZero() {
			wait = max(0, again.Sub(c.now()))
		}
		c.synced.Store(true)
		timer.Reset(wait)
	}
}

func (c *Controller) closeAll() {
	for address, b := range c.backends {
		b.close()
		delete(c.backends, address)
	}
}
