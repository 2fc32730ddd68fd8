// Package builds stands in for Tekton: it watches PipelineRuns, "builds" them, sets
// their status and that of their TaskRun as Tekton would, and sends Tekton's CloudEvents
// about both. Nothing is cloned and nothing is pushed: a run's image is what its parameter
// "image" names, with a digest made up from it.
//
// How a run goes is said by its annotation "emulator.sluice.dev/build", or else by a
// segment of its repository's path that begins with "emulate-": words joined by
// hyphens, for example https://git.example.com/emulate-slow-twice/hello.git. See
// [Script] for the words. A run whose spec.status is "Cancelled" is cancelled.
package builds

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/sluicegate/sluice/emulators/internal/program"
	"github.com/sluicegate/sluice/shared/trace"
)

// Options say how builds go.
type Options struct {
	Sink string        // where events are sent, e.g. "http://127.0.0.1:8090/events/{token}"; "" sends none
	Took time.Duration // of a build; 0 is half a second
}

// Controller builds what one API server asks for.
type Controller struct {
	dynamic dynamic.Interface
	opts    Options
	client  *http.Client
	log     *slog.Logger
	now     func() time.Time

	synced atomic.Bool
	group  sync.WaitGroup

	mu   sync.Mutex
	runs map[string]*run // by uid, those that are not over
}

// run is a run that is being worked on.
type run struct {
	cancel    context.CancelFunc
	cancelled atomic.Bool // by its spec
}

func kind(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: resource}
}

// New makes a controller that speaks to the API server as config says.
func New(config *rest.Config, o Options, log *slog.Logger) (*Controller, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400 // tests build many apps at once
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return &Controller{
		dynamic: client, opts: o, client: &http.Client{Timeout: program.CallLimit}, log: log, now: time.Now,
		runs: map[string]*run{},
	}, nil
}

// Ready tells whether every run that was there at the start is known.
func (c *Controller) Ready() bool { return c.synced.Load() }

// Run builds until ctx ends, and waits for the builds that it interrupts.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.group.Wait()
	defer cancel()
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 0)
	informer := factory.ForResource(kind("pipelineruns")).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.see(ctx, o) },
		UpdateFunc: func(_, o any) { c.see(ctx, o) },
		DeleteFunc: func(o any) { c.gone(ctx, o) },
	})
	if err != nil {
		return fmt.Errorf("watch PipelineRuns: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown() // waits for what Start started; ctx has ended by then
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	c.synced.Store(true)
	<-ctx.Done()
	return nil
}

// see starts a run that is new, or cancels one that shall be.
func (c *Controller) see(ctx context.Context, o any) {
	object, ok := o.(*unstructured.Unstructured)
	if !ok || over(object) {
		return
	}
	status, _, _ := unstructured.NestedString(object.Object, "spec", "status") // "" when it is not there
	c.mu.Lock()
	defer c.mu.Unlock()
	r, known := c.runs[string(object.GetUID())]
	if !known {
		if ctx.Err() != nil {
			return
		}
		runCtx, cancel := context.WithCancel(ctx)
		r = &run{cancel: cancel}
		c.runs[string(object.GetUID())] = r
		c.group.Go(func() {
			defer cancel()
			b := &build{Controller: c, script: scriptOf(object), began: c.now(), run: object.DeepCopy()}
			b.work(ctx, runCtx, r)
			c.forget(string(object.GetUID()))
		})
	}
	if status == "Cancelled" && r.cancelled.CompareAndSwap(false, true) {
		r.cancel()
	}
}

// gone interrupts a run that was deleted, and removes its TaskRun.
func (c *Controller) gone(ctx context.Context, o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.runs[string(object.GetUID())]; ok {
		r.cancel()
	}
	if ctx.Err() == nil {
		c.group.Go(func() { c.removeTaskRun(ctx, object) })
	}
}

func (c *Controller) forget(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, uid)
}

// work takes one run to its end. ctx is the controller's, runCtx ends early when the run
// is cancelled or deleted.
func (b *build) work(ctx, runCtx context.Context, r *run) {
	if !b.start(ctx) {
		return
	}
	trace.Sleep(runCtx, b.script.takes(cmp.Or(b.opts.Took, 500*time.Millisecond)))
	if ctx.Err() != nil || runCtx.Err() != nil && !r.cancelled.Load() {
		return
	}
	b.end(ctx, ending(b.run, b.script, r.cancelled.Load()))
}
