// Package reconcile is the queue of a function that makes something match its record:
// keys, such as apps, each worked on by one worker at a time, on client-go's work queue.
//
// It is level-triggered: a key says where to look and not what to do. So a key that is
// asked for again while it waits is worked on once, one that is asked for while it is
// worked on is worked on once more, and nothing is lost with the process: the next full
// pass finds it.
//
// What was asked for ([Queue.Add], [Queue.Do]) is tried again until it is done, after
// pauses that grow, so that a key that fails is not hammered and holds up no other; after
// RetryFor it is left to the passes. What a full pass finds ([Queue.Pass]) is tried once
// in each pass.
//
// The work has deadlines of its own and goes on when whoever has asked hangs up. It is
// the system's own, in the request and below the span that asked for it last. A panic ends the work on its
// key alone; it goes on in those who wait for that, so that it is counted and seen.
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
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/trace"
)

const (
	// Timeout bounds one piece of work on one key.
	Timeout = 20 * time.Second

	// PassTimeout bounds a full pass, and the wait of [Queue.Do]. What a pass has not come
	// to is the next one's.
	PassTimeout = 50 * time.Second
)

// ErrUnfinished is what reconcile returns when nothing has failed, but the key has to be
// looked at again.
var ErrUnfinished = errors.New("not finished yet")

// Receive takes a function's event: the periodic one has a pass made, one of eventType has
// the app worked on that is its subject. An error has the sender try again, so what no
// repetition helps with is none.
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
		log.WarnContext(ctx, "event names no app", "type", e.Type(), "id", e.ID())
	default:
		log.WarnContext(ctx, "event of an unknown type", "type", e.Type(), "id", e.ID())
	}
	return nil
}

// Options say how the keys of a queue are worked on.
type Options struct {
	Workers     int // keys that are worked on at the same time
	PassWorkers int // those of them that a pass takes at most; default Workers

	// Interrupt ends the work on a key when it is asked for again: for work that takes long
	// and is then about an older state of affairs.
	Interrupt bool

	FirstPause   time.Duration // before a key is tried again, each later pause being a quarter longer; default 1 s
	LongestPause time.Duration // default 10 s
	RetryFor     time.Duration // since a key was asked for last; default 1 min
}

func (o Options) withDefaults() Options {
	o.PassWorkers = cmp.Or(o.PassWorkers, o.Workers)
	o.FirstPause = cmp.Or(o.FirstPause, time.Second)
	o.LongestPause = cmp.Or(o.LongestPause, 10*time.Second)
	o.RetryFor = cmp.Or(o.RetryFor, time.Minute)
	return o
}

// Queue has keys worked on.
type Queue[K comparable] struct {
	options   Options
	reconcile func(ctx context.Context, key K) error
	failed    func(ctx context.Context, key K, err error)
	queue     workqueue.TypedRateLimitingInterface[K]
	workers   sync.WaitGroup
	passing   chan struct{} // holds the one pass that runs
	now       func() time.Time

	ctx    context.Context //nolint:containedctx // the work's own: it outlives the requests that cause it
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	items  map[K]*item // every key that waits or is worked on
}

// item is what is known of a key besides its place in the queue.
type item struct {
	request trace.Request      // that asked for it last
	cause   span.Span          // of that request
	until   time.Time          // when it is not tried again any more; zero for what a pass has found
	waiting []chan error       // closed once it has been worked on; gets a panic
	cancel  context.CancelFunc // of the work on it, nil while there is none
	again   bool               // asked for since the work on it began
	paused  bool               // tried in vain, and waiting to be tried again
}

// New makes a queue whose keys reconcile works on, and failed is told of when that fails.
// Its workers run until [Queue.Close].
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

// pauses is a rate limiter of client-go's that counts tries, with pauses that grow by a
// quarter in the place of doubled ones: what takes a while is seen soon after it is over.
type pauses[K comparable] struct {
	workqueue.TypedRateLimiter[K]
	first, longest time.Duration
}

// When gives the pause before the next try, which it counts.
func (p pauses[K]) When(key K) time.Duration {
	tries := p.NumRequeues(key)
	p.TypedRateLimiter.When(key)
	return time.Duration(min(float64(p.first)*math.Pow(1.25, float64(tries)), float64(p.longest)))
}

// Add has a key worked on, and does not wait. Of ctx it takes the request's id alone.
func (q *Queue[K]) Add(ctx context.Context, key K) { q.add(ctx, key, true) }

// Do has keys worked on, and waits until each has been once, however that ended.
func (q *Queue[K]) Do(ctx context.Context, keys ...K) {
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

// Pass has find look for the keys that need work, and has each worked on unless that is
// being done anyway, several at a time; work is false when the pass has to end. It
// returns once all are worked on. One pass runs at a time; another that comes meanwhile
// has nothing to add.
func (q *Queue[K]) Pass(ctx context.Context, find func(ctx context.Context, work func(K) bool) error) error {
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

// wait waits until a key has been worked on. An error is a panic of that.
func wait(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Has tells whether a key is worked on, or will be without being asked for again.
func (q *Queue[K]) Has(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items[key] != nil
}

// Close ends the work and waits for that. What is left is the next pass's.
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

// add puts a key into the queue because it was asked for, or because a pass has found it.
// The channel is closed once it has been worked on, at once if there is nothing to do.
func (q *Queue[K]) add(ctx context.Context, key K, asked bool) <-chan error {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := make(chan error, 1)
	it := q.items[key]
	if q.closed || !asked && it != nil && !it.paused {
		close(done)
		return done
	}
	request, _ := trace.Of(ctx)
	if it == nil {
		it = &item{request: request, cause: span.Of(ctx)}
		q.items[key] = it
	}
	if asked {
		it.request, it.cause, it.until = request, span.Of(ctx), q.now().Add(q.options.RetryFor)
		q.queue.Forget(key) // the pauses begin anew
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

// run is a worker.
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
		return // it was worked on before its pause had passed
	}
	err := q.try(ctx, key)
	if err != nil && !errors.Is(err, ErrUnfinished) && !errors.Is(ctx.Err(), context.Canceled) {
		q.failed(ctx, key, err)
	}
	q.end(key, err)
	waiting.release(err)
}

// panicked is the error of work that has panicked.
type panicked struct{ error }

// try keeps a panic to the key that it is about.
func (q *Queue[K]) try(ctx context.Context, key K) (err error) {
	ctx, work := span.Start(ctx, span.Internal, "reconcile")
	defer func() {
		if errors.Is(err, ErrUnfinished) {
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

// begin gives the context of the work on a key, and takes over those who wait for it.
func (q *Queue[K]) begin(key K) (context.Context, *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[key]
	if it == nil {
		return nil, nil
	}
	ctx := trace.As(trace.Begin(it.cause.In(q.ctx), it.request), trace.Actor{Kind: trace.System, Name: "system"})
	ctx, it.cancel = context.WithTimeout(ctx, Timeout)
	it.again, it.paused = false, false
	before := &item{waiting: it.waiting}
	it.waiting = nil
	return ctx, before
}

// end forgets a key, unless it is worked on again.
func (q *Queue[K]) end(key K, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[key]
	it.cancel()
	it.cancel = nil
	switch {
	case it.again: // it is in the queue
	case err != nil && q.now().Before(it.until):
		it.paused = true
		q.queue.AddRateLimited(key)
	default:
		delete(q.items, key)
		q.queue.Forget(key)
	}
}

// release tells those who wait that the work is over, and of its panic if that is how.
func (i *item) release(err error) {
	for _, done := range i.waiting {
		if errors.As(err, new(panicked)) {
			done <- err
		}
		close(done)
	}
	i.waiting = nil
}
