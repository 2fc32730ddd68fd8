package checker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/canary"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// stream listens to one collection and restarts the listener whenever it ends. Receive first
// applies a batch to the view or the meter, and then counts the canaries in it.
type stream struct {
	liveness

	checker *Checker
	index   int // index in package canary
	name    store.CanaryType
	listen  func(context.Context) error // blocks; never returns nil
	count   func() int
	applied applied

	firstWrite     chan struct{} // closed after the first canary's write, even if it failed
	firstWriteOnce sync.Once

	// IDs of ignored documents, which are damaged or have unknown content.
	unreadable      map[string]bool
	unreadableCount atomic.Int64
}

// The streams, as indices in package canary.
const (
	keyStream = iota
	planStream
	counterStream
)

func (c *Checker) newStreams() [canary.Types]*stream {
	var all [canary.Types]*stream
	for i, name := range [...]store.CanaryType{keyStream: store.CanaryKeys, planStream: store.CanaryPlans, counterStream: store.CanaryCounters} {
		all[i] = &stream{checker: c, index: i, name: name, liveness: liveness{now: c.now, zero: c.start}, firstWrite: make(chan struct{})}
	}
	keys, plans, counters := all[keyStream], all[planStream], all[counterStream]
	keys.listen = func(ctx context.Context) error {
		return c.feed.Keys(ctx, receiver[apikey.Key]{keys, c.snapshot.receiveKeys})
	}
	plans.listen = func(ctx context.Context) error {
		return c.feed.Plans(ctx, receiver[plan.Plan]{plans, c.snapshot.receivePlans})
	}
	counters.listen = func(ctx context.Context) error {
		return c.feed.Counters(ctx, receiver[usage.Counter]{counters, c.meter.Receive})
	}
	keys.count = func() int { return c.snapshot.Load().Keys() }
	plans.count = func() int { return c.snapshot.Load().Plans() }
	counters.count = c.meter.Len
	return all
}

const (
	// The pause before a listener restarts doubles each time, until a listener lasts.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second

	// firstCanary is the longest time for which a listener waits for the first canary's write.
	firstCanary = 5 * time.Second
)

var errSilent = errors.New("silent for too long")

func (s *stream) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := s.now()
		err := s.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrListenerReset) {
			s.invalidate()
		}
		if s.now().Sub(began) > 2*lastPause {
			pause = firstPause
		}
		s.checker.log.Warn("listener ended", "listener", string(s.name), "error", err, "pause", pause)
		reqctx.Sleep(ctx, pause/2+rand.N(pause/2)) //nolint:gosec // not relevant for security
		pause = min(2*pause, lastPause)
	}
}

func (s *stream) invalidate() {
	s.checker.proof.Invalidate(s.index)
	s.applied.invalidate()
}

// listenOnce waits until the first canary is written, so that the first batch contains it. Otherwise
// the proof would need a second batch, in which the emulator sends all documents again.
func (s *stream) listenOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx, cancel) })
	timer := time.NewTimer(firstCanary)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-s.firstWrite:
	case <-timer.C:
	}
	s.begin()
	err := s.listen(ctx)
	cancel(nil)
	watching.Wait()
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

func (s *stream) watch(ctx context.Context, end context.CancelCauseFunc) {
	timeout := s.checker.cfg.MaxStaleness / 2
	tick := time.NewTicker(timeout / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.silence(s.checker.proof.Age(s.index, s.now())) > timeout {
				end(errSilent)
				return
			}
		}
	}
}

type receiver[T any] struct {
	*stream

	apply func(store.Batch[T])
}

// Receive applies a batch. It reports the batch as applied, and counts its canaries, only if the
// result agrees with the store's count.
func (r receiver[T]) Receive(b store.Batch[T]) error {
	r.noteUnreadable(b)
	r.apply(b)
	if err := b.Verify(r.count()); err != nil {
		return err
	}
	r.applied.set(b.At, b.Lag)
	r.synced()
	r.echo(b.Canaries)
	r.checkOwnCanary(b.Reset, b.Departed, b.Canaries)
	if r.index == counterStream {
		r.checker.peers.Exchange.Members(r.now(), b.Reset, b.Departed, b.Canaries)
	}
	return nil
}

// checkOwnCanary invalidates the proof if the replica's own canary is deleted. Callers that wait for
// a change do not wait for a replica without a canary.
func (s *stream) checkOwnCanary(reset bool, departed []string, canaries []store.Canary) {
	own := s.checker.cfg.Replica
	exists := slices.ContainsFunc(canaries, func(c store.Canary) bool { return c.Replica == own })
	if _, proven := s.checker.proof.Age(s.index, s.checker.now()); proven && !exists && (reset || slices.Contains(departed, own)) {
		s.checker.log.Error("own canary deleted", "collection", string(s.name))
		s.invalidate()
		s.checker.leases.Lapse() // other replicas may treat this process as lost
	}
}

func (r receiver[T]) noteUnreadable(b store.Batch[T]) {
	before := r.unreadable
	if b.Reset || before == nil {
		r.unreadable = map[string]bool{}
	}
	for _, c := range b.Changes {
		if c.Err == nil {
			delete(r.unreadable, c.ID)
			continue
		}
		if !before[c.ID] {
			r.checker.log.Error("ignoring unreadable document", "collection", string(r.name), "id", c.ID, "error", c.Err)
		}
		r.unreadable[c.ID] = true
	}
	r.unreadableCount.Store(int64(len(r.unreadable)))
}

func (s *stream) echo(canaries []store.Canary) {
	c := s.checker
	for _, y := range canaries {
		if y.Replica == c.cfg.Replica && y.Run == c.process {
			c.proof.Echo(s.index, y.Seq, c.now())
		}
	}
	now := c.now()
	if !c.proven.Load() && c.proof.Fresh(now) {
		c.proven.Store(true)
		c.log.Info("view proven", "keys", c.snapshot.Load().Keys(), "took", now.Sub(c.start))
	}
	if s.index != counterStream {
		return
	}
	if age, ok := c.proof.Age(s.index, now); ok {
		c.meter.Proven(now.Add(-age), canaries)
	}
}

func (c *Checker) canaryKeeper() *canary.Prober {
	k := &canary.Prober{
		Proof:    c.proof,
		Interval: c.cfg.CanaryInterval,
		Coming:   func(t int) bool { return c.streams[t].snapshotPending() },
		Timeout:  c.cfg.MaxStaleness / 2,
		Now:      c.now,
		Log:      c.log,
	}
	for t, s := range c.streams {
		k.Writers[t] = func(ctx context.Context, seq int64) error {
			defer s.firstWriteOnce.Do(func() { close(s.firstWrite) })
			return c.store.WriteCanary(ctx, s.name, store.Canary{
				Replica: c.cfg.Replica, Run: c.process, Seq: seq,
				Applied: s.applied.time(), Ceiling: c.cfg.MaxStaleness, Address: c.cfg.address(), Key: c.queryKey, Features: checkers.Features(),
			})
		}
	}
	return k
}

// deleteCanaries first invalidates the proof, as checkOwnCanary does.
func (c *Checker) deleteCanaries(ctx context.Context) {
	for _, s := range c.streams {
		s.invalidate()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var err error
	for _, s := range c.streams {
		err = errors.Join(err, c.store.DeleteCanary(ctx, s.name, c.cfg.Replica))
	}
	if err != nil {
		c.log.Warn("delete canaries failed", "error", err)
	}
}

// liveness records a listener's signs of life. Until the first batch is complete, any message is
// one; later, only returned canaries are.
type liveness struct {
	now         func() time.Time
	zero        time.Time
	started     atomic.Int64 // in nanoseconds since zero
	lastMessage atomic.Int64
	firstBatch  atomic.Int64 // first complete batch; 0 before
}

func (l *liveness) begin() {
	now := l.since()
	l.firstBatch.Store(0)
	l.lastMessage.Store(now)
	l.started.Store(now)
}

// Heard records a message.
func (l *liveness) Heard() { l.lastMessage.Store(l.since()) }

func (l *liveness) synced() { l.firstBatch.CompareAndSwap(0, max(l.since(), 1)) }

func (l *liveness) snapshotPending() bool {
	return l.firstBatch.Load() == 0 && l.lastMessage.Load() > l.started.Load()
}

// silence returns the time since the last sign of life. proof is the age of the last canary.
func (l *liveness) silence(proof time.Duration, proven bool) time.Duration {
	now := l.since()
	first := l.firstBatch.Load()
	if first == 0 {
		return time.Duration(now - l.lastMessage.Load())
	}
	silent := time.Duration(now - first)
	if proven {
		silent = min(silent, proof)
	}
	return silent
}

func (l *liveness) since() int64 { return int64(l.now().Sub(l.zero)) }
