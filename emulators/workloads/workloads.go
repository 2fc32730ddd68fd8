// Package workloads emulates the deployment controller, the kubelet, the namespace controller
// and Knative. It watches Deployments and Services, serves each Service on its cluster IP, and
// reports status.
//
// Every image contains the app [Echo]. An image with the tag "broken" never becomes ready, and
// one whose path begins with "missing/" cannot be pulled. A Service without a ready pod refuses
// connections. A deleted namespace is emptied and finalized.
//
// The serving pods exist only in memory. After a restart, an available Deployment serves its
// current template immediately, and a rollout in progress begins again without the previous pod.
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
	readyAfter = 200 * time.Millisecond // until new pods are ready
	retryAfter = time.Second
)

// Controller runs the workloads of one API server.
type Controller struct {
	// Only selects namespaces. If it is set, Knative is not emulated. nil selects all.
	Only func(namespace string) bool

	api       kubernetes.Interface
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
	log       *slog.Logger
	now       func() time.Time

	wakeup   chan struct{}
	synced   atomic.Bool
	rollouts map[string]rollout // by namespace/name; used only by Run's goroutine, like backends
	backends map[string]*backend
	knative  *knative // nil without Knative
}

// New returns a controller for an API server.
func New(config *rest.Config, log *slog.Logger) (*Controller, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400 // tests deploy many apps at once
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client of the API server: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client of the API server: %w", err)
	}
	return &Controller{
		api: api, dynamic: dyn, discovery: api.Discovery(), log: log, now: time.Now,
		wakeup:   make(chan struct{}, 1),
		rollouts: map[string]rollout{},
		backends: map[string]*backend{},
	}, nil
}

// Ready reports whether the controller has read the existing objects.
func (c *Controller) Ready() bool { return c.synced.Load() }

// Run runs workloads until ctx ends.
func (c *Controller) Run(ctx context.Context) (err error) {
	factory := informers.NewSharedInformerFactory(c.api, 0)
	listers := sources{
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
		if c.knative, listers.knative, err = c.startKnative(ctx); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer c.closeAll() //nolint:contextcheck // ctx has ended by then
	factory.WaitForCacheSync(ctx.Done())
	if c.knative != nil {
		defer c.knative.close() //nolint:contextcheck // ctx has ended by then
		c.knative.factory.WaitForCacheSync(ctx.Done())
	}
	if ctx.Err() != nil {
		return nil
	}
	c.loop(ctx, listers)
	return nil
}

func (c *Controller) changes() cache.ResourceEventHandler {
	wake := func() {
		select {
		case c.wakeup <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake() },
		UpdateFunc: func(any, any) { wake() },
		DeleteFunc: func(any) { wake() },
	}
}

// loop reconciles after each change and when reconcile requests it.
func (c *Controller) loop(ctx context.Context, listers sources) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wakeup:
		case <-timer.C:
		}
		wait := time.Hour
		if wakeAt := c.reconcile(ctx, listers); !wakeAt.IsZero() {
			wait = max(0, wakeAt.Sub(c.now()))
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
