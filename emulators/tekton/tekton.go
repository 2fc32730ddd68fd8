// Package tekton emulates Tekton. It watches PipelineRuns, sets their status and that of their
// TaskRuns, and sends Tekton's CloudEvents. Nothing is cloned or pushed: the image of a run is
// its parameter "image" with a made-up digest.
//
// The annotation "emulator.sluice.dev/build" controls a run. Without it, a segment of the
// repository's path does, for example in https://git.example.com/emulate-slow-twice/hello.git.
// [Script] lists the permitted words.
package tekton

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
	"github.com/sluicegate/sluice/shared/reqctx"
)

// Options configure the builds.
type Options struct {
	Sink string        // e.g. "http://127.0.0.1:8090/events/{token}"; "" sends no events
	Took time.Duration // duration of a build; 0 is 500 ms
}

// Controller runs the builds of one API server.
type Controller struct {
	dynamic dynamic.Interface
	opts    Options
	client  *http.Client
	log     *slog.Logger
	now     func() time.Time

	synced atomic.Bool
	group  sync.WaitGroup

	mu   sync.Mutex
	runs map[string]*run // in progress, by UID
}

type run struct {
	cancel    context.CancelFunc
	cancelled atomic.Bool
}

func kind(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: resource}
}

// New returns a controller for the API server of config.
func New(config *rest.Config, o Options, log *slog.Logger) (*Controller, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400 // tests build many apps at once
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client of the API server: %w", err)
	}
	return &Controller{
		dynamic: client, opts: o, client: &http.Client{Timeout: program.CallLimit}, log: log, now: time.Now,
		runs: map[string]*run{},
	}, nil
}

// Ready reports whether the controller has read the existing runs.
func (c *Controller) Ready() bool { return c.synced.Load() }

// Run runs builds until ctx ends, and waits until the interrupted builds have ended.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.group.Wait()
	defer cancel()
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 0)
	informer := factory.ForResource(kind("pipelineruns")).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.observe(ctx, o) },
		UpdateFunc: func(_, o any) { c.observe(ctx, o) },
		DeleteFunc: func(o any) { c.gone(ctx, o) },
	})
	if err != nil {
		return fmt.Errorf("watch PipelineRuns: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	c.synced.Store(true)
	<-ctx.Done()
	return nil
}

// observe starts a new run, or cancels one whose spec.status is "Cancelled".
func (c *Controller) observe(ctx context.Context, o any) {
	object, ok := o.(*unstructured.Unstructured)
	if !ok || over(object) {
		return
	}
	status, _, _ := unstructured.NestedString(object.Object, "spec", "status")
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

// work runs a build. runCtx ends if the run is cancelled or deleted.
func (b *build) work(ctx, runCtx context.Context, r *run) {
	if !b.start(ctx) {
		return
	}
	reqctx.Sleep(runCtx, b.script.takes(cmp.Or(b.opts.Took, 500*time.Millisecond)))
	if ctx.Err() != nil || runCtx.Err() != nil && !r.cancelled.Load() {
		return
	}
	b.end(ctx, ending(b.run, b.script, r.cancelled.Load()))
}
