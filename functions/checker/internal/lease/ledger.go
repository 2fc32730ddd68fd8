package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/spent"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	// handover is for how long a replica that has too little waits for what others give back,
	// before it says that the quota is used up.
	handover = time.Second

	// Pauses between tries, doubled each time: after the store failed, and while there is
	// nothing to be had.
	firstPause  = 100 * time.Millisecond
	failedPause = 5 * time.Second
	emptyPause  = time.Minute
)

// ledger is a term's side towards the store. Who has taken the term uses it, and the keeper
// while nobody has.
type ledger struct {
	taken atomic.Bool

	read    bool  // what the store says of this process has been read
	held    int64 // what was spent of it, and what is left; never more than the store says
	unclear bool  // the last write's outcome is not known
	sample  sample

	slot    spent.Record // in this process's file
	slotted bool

	since time.Time // when there began to be too little; zero while there is enough
	retry time.Time // no sooner
	pause time.Duration
}

func newTerm(name usage.Term, quota int64, now time.Time) *term {
	began, ends := name.Span()
	t := &term{Term: name, began: began.UnixNano(), ends: ends.UnixNano(), ledger: ledger{sample: sample{at: now}}}
	t.quota.Store(quota)
	t.recorded = &t.unrecorded
	return t
}

// over tells whether the period has ended.
func (t *term) over(now time.Time) bool { return now.UnixNano() >= t.ends }

// spent is how many were spent.
func (t *term) spent() int64 { return t.held - t.left.Load() }

// keep takes what is left beyond n out of memory, and tells whether there was something: it
// is to be given back.
func (t *term) keep(n int64) bool {
	for {
		left := t.left.Load()
		if left <= n {
			return false
		}
		if t.left.CompareAndSwap(left, n) {
			t.held -= left - n
			t.unclear = true
			return true
		}
	}
}

// settled is what a term holds after it was brought to the store.
type settled struct {
	more int64 // came to it
	free int64 // of the quota is given out to nobody
}

// settle brings to the store what the term holds, and takes as much more as level says of
// what no other process holds.
func (t *term) settle(ctx context.Context, b *Book, quota int64, level func(free int64) int64) (done settled, err error) {
	lapses := b.lapses.Load()
	force := t.unclear || t.lapses.Load() != lapses // a release on top of an earlier version cannot land then
	err = b.cfg.Store.Lease(ctx, t.Term, b.cfg.Run, force, func(own, others int64) int64 {
		if !t.read { // an earlier account of this process may have spent all of it
			t.read, t.held = true, own
			b.enter(t)
		}
		if own < t.held { // it was released
			t.keep(0)
		}
		left := t.left.Load()
		given := max(quota-others-t.held, 0) // out to nobody
		more := min(max(level(given+left)-left, 0), given)
		done = settled{more: more, free: given - more}
		return t.held + more
	})
	if err != nil {
		t.unclear = true
		return settled{}, err
	}
	t.unclear = false
	t.held += done.more
	t.left.Add(done.more)
	t.lapses.Store(lapses)
	return done, nil
}

// wait puts the next try off: after a failure, or while there is nothing to be had.
func (t *term) wait(now time.Time, longest time.Duration) {
	t.pause = min(max(2*t.pause, firstPause), longest)
	t.retry = now.Add(t.pause)
}

// calm lets the next try come at once.
func (t *term) calm() { t.pause, t.retry = 0, time.Time{} }
