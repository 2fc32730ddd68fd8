// Package reconcile is a work queue for level-triggered reconciliation, based on client-go's
// workqueue. At most one worker processes a key, such as an app, at a time.
//
// A key that is added again while it waits is processed once. A key that is added while it is
// processed is processed again. The queue is not stored; the next resync finds lost keys.
//
// Keys from [Queue.Add] and [Queue.AddAndWait] are retried with growing pauses until they succeed, for at
// most [Options].RetryFor. Keys from a resync ([Queue.Resync]) are tried once.
//
// The work has its own deadlines and does not end with the request that caused it. A panic
// affects only its key, and is raised again in the goroutines that wait for the key.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
)

const (
	// Timeout limits the work on one key.
	Timeout = 20 * time.Second

	// PassTimeout limits a resync, and the wait of [Queue.AddAndWait]. The next resync continues.
	PassTimeout = 50 * time.Second
)

// ErrRequeue is returned by reconcile functions to request a retry without a failure.
var ErrRequeue = errors.New("not finished")

// Receive handles a function's event. The tick, a periodic event, starts a resync. An event of
// eventType requests work on the app in its subject. Receive logs and ignores invalid events: an
// error would only make the sender retry.
func Receive(
	ctx context.Context, log *slog.Logger, e cloudevents.Event, eventType string,
	pass func(context.Context) error, requested func(context.Context, app.Ref) error,
) error {
	ctx = context.WithoutCancel(ctx)
	switch e.Type() {
	case funcmain.PingType:
		return pass(ctx)
	case eventType:
		if ref, ok := app.ParseRef(e.Subject()); ok {
			return requested(ctx, ref)
		}
		log.WarnContext(ctx, "ignoring event without an app", "type", e.Type(), "id", e.ID())
	default:
		log.WarnContext(ctx, "ignoring event of unknown type", "type", e.Type(), "id", e.ID())
	}
	return nil
}

// Options configures a [Queue].
type Options struct {
	Workers     int // keys processed at the same time
	PassWorkers int // of these, the maximum for a resync; default Workers

	// Interrupt cancels the work on a key that is added again. Set it if the work may take long,
	// because it would continue with an outdated state.
	Interrupt bool

	FirstPause   time.Duration // before the first retry; each later pause is 1.25 times as long; default 1 s
	LongestPause time.Duration // default 10 s
	RetryFor     time.Duration // since the key was last added; default 1 min
}

func (o Options) withDefaults() Options {
	o.PassWorkers = cmp.Or(o.PassWorkers, o.Workers)
	o.FirstPause = cmp.Or(o.FirstPause, time.Second)
	o.LongestPause = cmp.Or(o.LongestPause, 10*time.Second)
	o.RetryFor = cmp.Or(o.RetryFor, time.Minute)
	return o
}

// Queue is a queue of keys and the workers that process them.
type Queue[K comparable] struct {
	options   Options
	reconcile func(ctx context.Context, key K) error
	failed    func(ctx context.Context, key K, err error)
	queue     workqueue.TypedRateLimitingInterface[K]
	workers   sync.WaitGroup
	passing   chan struct{} // semaphore of the running resync
	now       func() time.Time

	ctx    context.Context //nolint:containedctx // the work outlives the requests that cause it
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	items  map[K]*item
}

type item struct {
	request reqctx.Request     // the last request that added the key
	cause   span.Span          // of that request
	until   time.Time          // no retries after this; zero for keys from a resync
	waiting []chan error       // closed once the key has been processed; a panic is sent first
	cancel  context.CancelFunc // of the current work, or nil
	again   bool               // added since the current work began
	paused  bool               // waits for a retry
}

// New returns a queue that processes keys with reconcile, and calls failed for each failure. Its
// workers run until [Queue.Close].
func New[K comparable](o Options, reconcile func(context.Context, K) error, failed func(context.Context, K, error)) *Queue[K] {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	q := &Queue[K]{
		options: o, reconcile: reconcile, failed: failed,
		queue: workqueue.NewTypedRateLimitingQueue[K](pauses[K]{
			TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[K](o.FirstPause, o.LongestPause),
			first:            o.FirstPause, longest: o.LongestPause,
		}),
		passing: make(chan struct{}, 1), now: time.Now, ctx: ctx, cancel: cancel, items: map[K]*item{},
	}
	for range o.Workers {
		q.workers.Go(q.run)
	}
	return q
}

// pauses replaces client-go's pauses, which double, by pauses that grow by a quarter. A key is then
// retried soon after a slow external change.
type pauses[K comparable] struct {
	workqueue.TypedRateLimiter[K]
	first, longest time.Duration
}

func (p pauses[K]) When(key K) time.Duration {
	tries := p.NumRequeues(key)
	p.TypedRateLimiter.When(key)
	return time.Duration(min(float64(p.first)*math.Pow(1.25, float64(tries)), float64(p.longest)))
}

// Add enqueues key and returns immediately. It uses only the request ID and the span from ctx.
func (q *Queue[K]) Add(ctx context.Context, key K) { q.add(ctx, key, true) }

// AddAndWait enqueues keys and waits until each has been processed once, successfully or not. It waits for
// at most [PassTimeout].
func (q *Queue[K]) AddAndWait(ctx context.Context, keys ...K) {
	ctx, cancel := context.WithTimeout(ctx, PassTimeout)
	defer cancel()
	done := make([]<-chan error, len(keys))
	for i, key := range keys {
		done[i] = q.add(ctx, key, true)
	}
	for _, one := range done {
		if err := wait(ctx, one); err != nil {
			panic(err)
		}
	}
}

// Resync runs a resync. find calls work for each key that may need it, until work returns false.
// Keys that are already queued are skipped, unless they wait for a retry. Pass returns after all
// work has ended, or immediately if another resync is running.
func (q *Queue[K]) Resync(ctx context.Context, find func(ctx context.Context, work func(K) bool) error) error {
	select {
	case q.passing <- struct{}{}:
		defer func() { <-q.passing }()
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, PassTimeout)
	defer cancel()
	var open errgroup.Group
	room := make(chan struct{}, q.options.PassWorkers)
	err := find(ctx, func(key K) bool {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		open.Go(func() error {
			defer func() { <-room }()
			return wait(ctx, q.add(ctx, key, false))
		})
		return true
	})
	if p := open.Wait(); p != nil {
		panic(p)
	}
	return err
}

func wait(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Pending reports whether a key is queued, in progress, or waiting for a retry.
func (q *Queue[K]) Pending(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items[key] != nil
}

// Close cancels the work and waits for it to end.
func (q *Queue[K]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.queue.ShutDown()
	q.workers.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, it := range q.items {
		it.release(nil)
		delete(q.items, key)
	}
}

// add enqueues a key. asked is false for a resync. The returned channel is closed once the key has
// been processed, or immediately if there is nothing to do.
func (q *Queue[K]) add(ctx context.Context, key K, asked bool) <-chan error {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := make(chan error, 1)
	it := q.items[key]
	if q.closed || !asked && it != nil && !it.paused {
		close(done)
		return done
	}
	request, _ := reqctx.FromContext(ctx)
	if it == nil {
		it = &item{request: request, cause: span.FromContext(ctx)}
		q.items[key] = it
	}
	if asked {
		it.request, it.cause, it.until = request, span.FromContext(ctx), q.now().Add(q.options.RetryFor)
		q.queue.Forget(key) // resets the pauses
	}
	if it.cancel != nil {
		it.again = true
		if q.options.Interrupt {
			it.cancel()
		}
	}
	it.paused, it.waiting = false, append(it.waiting, done)
	q.queue.Add(key)
	return done
}

func (q *Queue[K]) run() {
	for {
		key, closed := q.queue.Get()
		if closed {
			return
		}
		q.work(key)
		q.queue.Done(key)
	}
}

func (q *Queue[K]) work(key K) {
	ctx, waiting := q.begin(key)
	if ctx == nil {
		return // already processed: it was added again before its pause ended
	}
	err := q.try(ctx, key)
	if err != nil && !errors.Is(err, ErrRequeue) && !errors.Is(ctx.Err(), context.Canceled) {
		q.failed(ctx, key, err)
	}
	q.end(key, err)
	waiting.release(err)
}

type panicked struct{ error }

func (q *Queue[K]) try(ctx context.Context, key K) (err error) {
	ctx, work := span.Start(ctx, span.Internal, "reconcile")
	defer func() {
		if errors.Is(err, ErrRequeue) {
			work.End(nil)
			return
		}
		work.End(err)
	}()
	defer func() {
		if p := recover(); p != nil {
			err = panicked{fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return q.reconcile(ctx, key)
}

// begin returns the context for the work on a key, and the waiters to notify afterwards.
func (q *Queue[K]) begin(key K) (context.Context, *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[key]
	if it == nil {
		return nil, nil
	}
	ctx := reqctx.WithActor(reqctx.Begin(it.cause.ContextWith(q.ctx), it.request), reqctx.Actor{Kind: reqctx.System, Name: "system"})
	ctx, it.cancel = context.WithTimeout(ctx, Timeout)
	it.again, it.paused = false, false
	before := &item{waiting: it.waiting}
	it.waiting = nil
	return ctx, before
}

func (q *Queue[K]) end(key K, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[key]
	it.cancel()
	it.cancel = nil
	switch {
	case it.again: // already in the queue
	case err != nil && q.now().Before(it.until):
		it.paused = true
		q.queue.AddRateLimited(key)
	default:
		delete(q.items, key)
		q.queue.Forget(key)
	}
}

// release notifies the waiters, and passes a panic on to them.
func (i *item) release(err error) {
	for _, done := range i.waiting {
		if errors.As(err, new(panicked)) {
			done <- err
		}
		close(done)
	}
	i.waiting = nil
}
