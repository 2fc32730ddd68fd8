// Package builds stands in for Tekton: it watches PipelineRuns, "builds" them, sets
// their status as Tekton would and sends Tekton's CloudEvents about them. Nothing is
// cloned and nothing is pushed: a run's image is what its parameter "image" names,
// with a digest made up from it.
//
// How a run goes is said by its annotation "emulator.sluice.dev/build", or else by a
// segment of its repository's path that begins with "emulate-": words joined by
// hyphens, for example https://git.example.com/emulate-slow-twice/hello.git. See
// [Script] for the words. A run whose spec.status is "Cancelled" is cancelled.
package builds

import (
	"cmp"
	"context"
	"errors"
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

func pipelineRuns() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}
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
	informer := factory.ForResource(pipelineRuns()).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.see(ctx, o) },
		UpdateFunc: func(_, o any) { c.see(ctx, o) },
		DeleteFunc: c.gone,
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
			c.build(ctx, runCtx, object.DeepCopy(), r)
			c.forget(string(object.GetUID()))
		})
	}
	if status == "Cancelled" && r.cancelled.CompareAndSwap(false, true) {
		r.cancel()
	}
}

// gone interrupts a run that was deleted.
func (c *Controller) gone(o any) {
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
}

func (c *Controller) forget(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, uid)
}

// build takes one run to its end. ctx is the controller's, runCtx ends early when the
// run is cancelled or deleted.
func (c *Controller) build(ctx, runCtx context.Context, object *unstructured.Unstructured, r *run) {
	script := scriptOf(object)
	began := c.now()
	var late []event
	tell := func(kind string) {
		e := event{kind: kind, body: shaped(object, script)}
		if script.Reordered && kind != "successful" && kind != "failed" {
			late = append([]event{e}, late...)
			return
		}
		c.send(ctx, e, script)
	}
	move := func(s status) bool {
		err := c.write(ctx, object, s, began)
		if err != nil && !errors.Is(err, context.Canceled) {
			c.log.Warn("status of a run not written", "run", object.GetName(), "error", err)
		}
		return err == nil
	}
	if !move(status{reason: "Started", message: "Not all Tasks in the Pipeline have finished executing"}) {
		return
	}
	tell("started")
	if !move(status{reason: "Running", message: "Tasks Completed: 0 (Failed: 0, Cancelled 0), Incomplete: 1, Skipped: 0"}) {
		return
	}
	tell("running")
	pause(runCtx, script.takes(cmp.Or(c.opts.Took, 500*time.Millisecond)))
	if ctx.Err() != nil || runCtx.Err() != nil && !r.cancelled.Load() {
		return
	}
	end := ending(object, script, r.cancelled.Load())
	if !move(end) {
		return
	}
	tell(end.kind())
	for _, e := range late {
		c.send(ctx, e, script)
	}
}

// pause waits unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
