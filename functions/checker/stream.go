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
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/usage"
)

// stream follows one collection, and starts its listener over, with a full batch first,
// whatever ends it. From there a document takes one way: the listener gathers a
// consistent batch (package store), Receive puts its changes into the snapshot that
// requests are decided on, or into the meter's sums, and only then counts the canaries
// that came with it.
type stream struct {
	liveness

	checker *Checker
	at      int                         // in package canary
	name    store.CanaryType            // of the collection
	listen  func(context.Context) error // blocks; never returns nil
	count   func() int                  // of readable documents, by all batches so far
	applied applied

	tried    chan struct{} // closed once the first canary's write has succeeded or failed
	tryEnded sync.Once

	// The documents that are none of Sluice's, or are damaged: other fields, other types,
	// the id of another one. They open nothing, and they keep nothing else from being heard.
	unreadable      map[string]bool // by id; only the listener uses it
	unreadableCount atomic.Int64
}

// The streams, as package canary numbers them.
const (
	keyStream = iota
	planStream
	counterStream
)

func (c *Checker) newStreams() [canary.Types]*stream {
	var all [canary.Types]*stream
	for at, name := range [...]store.CanaryType{keyStream: store.CanaryKeys, planStream: store.CanaryPlans, counterStream: store.CanaryCounters} {
		all[at] = &stream{checker: c, at: at, name: name, liveness: liveness{now: c.now, zero: c.start}, tried: make(chan struct{})}
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
	// Pauses between an end and the next start: doubled each time, back to the first
	// after a listener that lasted.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second

	// firstCanary is how long a listener waits for the first canary: one that cannot
	// write may hear all the same, and will be proven later.
	firstCanary = 5 * time.Second
)

var errSilent = errors.New("silent for too long")

// run listens until ctx ends.
func (s *stream) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := s.now()
		err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrDoubt) {
			s.doubt()
		}
		if s.now().Sub(began) > 2*lastPause {
			pause = firstPause
		}
		s.checker.log.Warn("listener ended", "listener", string(s.name), "error", err, "pause", pause)
		trace.Sleep(ctx, pause/2+rand.N(pause/2)) //nolint:gosec // spreads restarts, protects nothing
		pause = min(2*pause, lastPause)
	}
}

// doubt takes back what was proven, and said to be applied.
func (s *stream) doubt() {
	s.checker.proof.Doubt(s.at)
	s.applied.doubt()
}

// once listens until the listener ends or has been silent for too long. It begins once
// its type's first canary is written: the canary then comes with the first full batch,
// which is the proof already. A listener that began first would have to wait for
// another round, and from a store that sends everything anew for each change (the
// emulator) for the whole batch.
func (s *stream) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx, cancel) })
	timer := time.NewTimer(firstCanary)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-s.tried:
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

// watch ends a listener that gives no sign of life, so that a connection which died
// without a word is not waited for.
func (s *stream) watch(ctx context.Context, end context.CancelCauseFunc) {
	patience := s.checker.cfg.MaxStaleness / 2
	tick := time.NewTicker(patience / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.silence(s.checker.proof.Age(s.at, s.now())) > patience {
				end(errSilent)
				return
			}
		}
	}
}

// receiver is what the store hands documents to.
type receiver[T any] struct {
	*stream

	apply func(store.Batch[T]) // to the snapshot or the sums
}

// Receive applies a batch. Only if the result agrees with the store's count does it report
// the batch as applied and count the batch's canaries.
func (r receiver[T]) Receive(b store.Batch[T]) error {
	r.noteUnreadable(b)
	r.apply(b)
	if err := b.Verify(r.count()); err != nil {
		return err
	}
	r.applied.set(b.At, b.Lag)
	r.synced()
	r.echo(b.Canaries)
	r.listed(b.Reset, b.Departed, b.Canaries)
	if r.at == counterStream {
		r.checker.peers.Exchange.Members(r.now(), b.Reset, b.Departed, b.Canaries)
	}
	return nil
}

// listed notes whether the replica's own canary is still there. Without it nobody
// waits for this replica when a change is to be in force, so it must not serve: whoever
// deleted it, all is in doubt until the next one comes back.
func (s *stream) listed(reset bool, departed []string, heard []store.Canary) {
	own := s.checker.cfg.Replica
	there := slices.ContainsFunc(heard, func(c store.Canary) bool { return c.Replica == own })
	if _, proven := s.checker.proof.Age(s.at, s.checker.now()); proven && !there && (reset || slices.Contains(departed, own)) {
		s.checker.log.Error("own canary is gone", "collection", string(s.name))
		s.doubt()
		s.checker.leases.Lapse() // without a canary, this process may count as lost
	}
}

// noteUnreadable notes which documents of a batch cannot be read, and logs each once.
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
			r.checker.log.Error("unreadable document opens nothing", "collection", string(r.name), "id", c.ID, "error", c.Err)
		}
		r.unreadable[c.ID] = true
	}
	r.unreadableCount.Store(int64(len(r.unreadable)))
}

// echo counts those of a batch's canaries that are this process's own, and tells the
// meter how far counters have been heard, and of whom.
func (s *stream) echo(heard []store.Canary) {
	c := s.checker
	for _, y := range heard {
		if y.Replica == c.cfg.Replica && y.Run == c.process {
			c.proof.Echo(s.at, y.Seq, c.now())
		}
	}
	now := c.now()
	if !c.proven.Load() && c.proof.Fresh(now) {
		c.proven.Store(true)
		c.log.Info("view proven", "keys", c.snapshot.Load().Keys(), "took", now.Sub(c.start))
	}
	if s.at != counterStream {
		return
	}
	if age, ok := c.proof.Age(s.at, now); ok {
		c.meter.Proven(now.Add(-age), heard)
	}
}

// keeper writes the canaries.
func (c *Checker) keeper() *canary.Keeper {
	k := &canary.Keeper{
		Proof:    c.proof,
		Interval: c.cfg.CanaryInterval,
		Coming:   func(t int) bool { return c.streams[t].coming() },
		Timeout:  c.cfg.MaxStaleness / 2,
		Now:      c.now,
		Log:      c.log,
	}
	for t, s := range c.streams {
		k.Writers[t] = func(ctx context.Context, seq int64) error {
			defer s.tryEnded.Do(func() { close(s.tried) })
			return c.store.WriteCanary(ctx, s.name, store.Canary{
				Replica: c.cfg.Replica, Run: c.process, Seq: seq,
				Applied: s.applied.time(), Ceiling: c.cfg.MaxStaleness, Address: c.cfg.address(), Key: c.queryKey, Features: checkers.Features(),
			})
		}
	}
	return k
}

// leave deletes the replica's canaries, so that those of replicas that are gone
// do not pile up. From then on nobody waits for it, so before that it gives up its proof:
// a request that is still on its way is denied.
func (c *Checker) leave(ctx context.Context) {
	for _, s := range c.streams {
		s.doubt()
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

// liveness follows one listener's signs of life. Until its first batch is complete,
// any message is one: a large collection takes its time. From then on only the
// canaries count, whose coming back is the listener's whole purpose.
type liveness struct {
	now   func() time.Time
	zero  time.Time
	began atomic.Int64 // when the listener started, in nanoseconds since zero
	heard atomic.Int64 // last message, or the start
	first atomic.Int64 // when the first batch was complete; 0 before
}

// begin notes that the listener starts.
func (l *liveness) begin() {
	now := l.since()
	l.first.Store(0)
	l.heard.Store(now)
	l.began.Store(now)
}

// Heard notes a message.
func (l *liveness) Heard() { l.heard.Store(l.since()) }

// synced notes that a batch is complete.
func (l *liveness) synced() { l.first.CompareAndSwap(0, max(l.since(), 1)) }

// coming tells whether the first batch is under way: something of it has been heard.
func (l *liveness) coming() bool { return l.first.Load() == 0 && l.heard.Load() > l.began.Load() }

// silence is for how long there has been no sign of life; proof is the age of the
// latest canary that has come back, as far as there is one.
func (l *liveness) silence(proof time.Duration, proven bool) time.Duration {
	now := l.since()
	first := l.first.Load()
	if first == 0 {
		return time.Duration(now - l.heard.Load())
	}
	silent := time.Duration(now - first)
	if proven {
		silent = min(silent, proof)
	}
	return silent
}

func (l *liveness) since() int64 { return int64(l.now().Sub(l.zero)) }
