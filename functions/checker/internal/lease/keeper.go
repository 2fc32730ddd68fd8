package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	// round is from one look at all keys to the next, for what nobody asks for.
	round = time.Second
	// breath is the least time from one look at the keys that are asked for to the next.
	breath = 5 * time.Millisecond
	// pressing is for how long a replica that has said it is taken to have too little.
	pressing = 2 * time.Second
	// prepare is how long before a period begins it is leased of at the latest, and spread
	// how much sooner at the most: keys take turns.
	prepare, spread = 10 * time.Second, time.Minute
	// restraint is how many times longer than a look at the view lasts the next one waits.
	restraint = 20

	atOnce  = 16  // writes under way
	unasked = 256 // keys at a time that are looked at though nobody asks for them

	lastWrite = 15 * time.Second
)

// keeper is the book's side towards the view and the store; one goroutine uses it.
type keeper struct {
	turn   chan struct{}  // held by each write under way
	full   atomic.Bool    // a key waits for a turn
	flying sync.WaitGroup // of them

	terms  map[usage.Term]*term // that are not over: what was held of them must be remembered
	behind map[uint32]bool      // keys to look at though nobody asks for them

	looked  time.Time     // at the view
	took    time.Duration // to look
	rounded time.Time     // at all keys
}

// Run keeps leases until ctx ends, and then gives back what is left. It first returns the rest
// of the pod's previous processes, and begins to lease after [recoverFirst] at the latest.
func (b *Book) Run(ctx context.Context) {
	recovered := b.begin(ctx)
	select {
	case <-recovered:
	case <-ctx.Done():
	case <-time.After(recoverFirst):
	}
	tick := time.NewTicker(round / 10)
	defer tick.Stop()
	for ctx.Err() == nil {
		b.Tick(ctx, b.cfg.Now())
		trace.Sleep(ctx, breath)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-b.awake:
		}
	}
	<-recovered
	b.Leave(context.WithoutCancel(ctx))
}

// Leave returns all that is left, as far as there is time. Nothing is spent after it. The rest
// stays with this process until its period is over, or until the pod's next process returns it.
func (b *Book) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWrite)
	defer cancel()
	b.accounts.Store(&map[uint32]*account{})
	b.flying.Wait()
	all := b.ended(b.cfg.Now())
	for pause := firstPause; len(all) > 0; pause *= 2 {
		var err error
		if all, err = b.cfg.Store.EndLeases(ctx, all); err == nil {
			continue
		}
		b.failures.Add(1)
		if trace.Sleep(ctx, pause); ctx.Err() != nil {
			b.cfg.Log.Warn("leases not given back: the process had to end", "leases", len(all), "error", err)
			return
		}
	}
	b.discard()
}

// ended returns what this process has spent of each term that is not over, and takes the rest
// out of memory.
func (b *Book) ended(now time.Time) (all []usage.Ended) {
	for _, t := range b.terms {
		if t.keep(0); t.read && !t.over(now) {
			all = append(all, usage.Ended{Term: t.Term, Process: b.cfg.Run, Spent: t.held})
		}
	}
	return all
}

// job is a term that may have to be brought to the store, for a key with limits; without one
// all that is left of it is given back.
type job struct {
	*term

	account *account
	limits  view.Limits
}

// Tick looks at the keys that are asked for, and at some that are not.
func (b *Book) Tick(ctx context.Context, now time.Time) {
	if b.changed.Load() && now.Sub(b.looked) >= restraint*b.took {
		b.look(now)
	}
	if b.more.Swap(false) {
		b.reconsider()
	}
	surveyed := now.Sub(b.rounded) >= round
	if surveyed {
		b.rounded = now
		b.survey(now)
	}
	var jobs []job
	for slot := range b.due() {
		jobs = append(jobs, b.arrange(slot, now)...)
	}
	if surveyed {
		jobs = append(jobs, b.rests(now)...)
	}
	b.settle(ctx, jobs, now)
}

// due are the keys that are asked for, and a few of those that are not.
func (b *Book) due() map[uint32]bool {
	all := map[uint32]bool{}
	for slot := range b.low.Drain() {
		all[slot] = true
		delete(b.behind, slot)
	}
	n := 0
	for slot := range b.behind {
		if n++; n > unasked {
			break
		}
		delete(b.behind, slot)
		all[slot] = true
	}
	return all
}

// look finds the keys that have a hard quota now.
func (b *Book) look(now time.Time) {
	b.changed.Store(false)
	begun := b.cfg.Now()
	before, after := *b.accounts.Load(), map[uint32]*account{}
	for k := range b.cfg.View().HardQuotas() {
		a := before[k.Slot()]
		if a == nil || a.prefix != k.Prefix() { // another key had the slot before
			a = &account{slot: k.Slot(), prefix: k.Prefix()}
		}
		after[a.slot] = a
		l, _ := k.Limits()
		if t := a.at(now.UnixNano(), l.Period); t == nil || t.quota.Load() != l.Quota {
			b.behind[a.slot] = true
		}
	}
	b.accounts.Store(&after)
	for slot, a := range before {
		if after[slot] != a {
			a.give(nil, nil)
		}
	}
	b.looked, b.took = now, b.cfg.Now().Sub(begun)
}

// survey finds the keys that are to be looked at though nobody asks for them, and forgets
// the terms that are over.
func (b *Book) survey(now time.Time) {
	for slot, a := range *b.accounts.Load() {
		t := a.now.Load()
		if t != nil && t.taken.Load() {
			continue
		}
		if t == nil || !t.read || t.unclear || t.over(now) || a.next.Load() == nil && b.near(a, t, now) {
			b.behind[slot] = true
		}
	}
	for name, t := range b.terms {
		if t.over(now.Add(-prepare)) && !t.taken.Load() { // a clock may be set back a little
			delete(b.terms, name)
			b.strike(t)
		}
	}
}

// rests are the terms that no account has any more, and of which something is to be given back.
func (b *Book) rests(now time.Time) (jobs []job) {
	used := map[*term]bool{}
	for _, a := range *b.accounts.Load() {
		used[a.now.Load()], used[a.next.Load()] = true, true
	}
	for _, t := range b.terms {
		if !used[t] && !t.taken.Load() && !t.over(now) && (!t.read || t.unclear || t.left.Load() > 0) {
			jobs = append(jobs, job{term: t})
		}
	}
	return jobs
}

// near tells whether the period after a term's is to be leased of.
func (b *Book) near(a *account, t *term, now time.Time) bool {
	turn := time.Duration(a.slot) * time.Millisecond % spread
	return now.Add(prepare+turn).UnixNano() >= t.ends
}

// arrange sees to it that a key has the terms that it needs.
func (b *Book) arrange(slot uint32, now time.Time) (jobs []job) {
	a := (*b.accounts.Load())[slot]
	if a == nil {
		return nil
	}
	k, _ := b.cfg.View().Find([]byte(a.prefix))
	l, ok := k.Limits()
	if !ok || !l.Hard {
		return nil // the view is about to be looked at
	}
	t := a.at(now.UnixNano(), l.Period)
	if t == nil {
		t = b.open(usage.TermOf(a.prefix, l.Period, now), l, now)
	}
	next := a.next.Load()
	if next == t {
		next = nil
	}
	if next == nil && b.near(a, t, now) {
		next = b.open(usage.TermOf(a.prefix, l.Period, time.Unix(0, t.ends)), l, now)
	}
	a.give(t, next)
	jobs = append(jobs, job{t, a, l})
	if next != nil {
		jobs = append(jobs, job{next, a, l})
	}
	return jobs
}

// give lets requests spend of two terms, and of no others.
func (a *account) give(now, next *term) {
	a.now.Store(now)
	a.next.Store(next)
}

// open gives a term: the one that this process has held of before, if there is one.
func (b *Book) open(name usage.Term, l view.Limits, now time.Time) *term {
	t := b.terms[name]
	if t == nil {
		t = newTerm(name, l.Quota, now)
		b.terms[name] = t
	}
	return t
}

// settle brings terms to the store, atOnce at a time, and does not wait for the writes.
// While all of them are in progress, the keeper goes on, and looks at the other keys again.
func (b *Book) settle(ctx context.Context, jobs []job, now time.Time) {
	for _, j := range jobs {
		if !j.taken.CompareAndSwap(false, true) {
			b.later(j)
			continue
		}
		if !b.takeTurn() {
			j.taken.Store(false)
			b.full.Store(true)
			b.later(j)
			continue
		}
		b.flying.Go(func() {
			defer func() {
				j.taken.Store(false)
				<-b.turn
				if b.full.Swap(false) {
					b.wake()
				}
			}()
			if j.account == nil {
				b.giveBack(ctx, j.term, now)
			} else {
				b.supply(ctx, j, now)
			}
		})
	}
}

// later has the keeper look at a job's key again.
func (b *Book) later(j job) {
	if j.account != nil {
		b.low.Add(j.account.slot)
	}
}

// takeTurn takes a turn of the writes in progress, and reports whether there was one.
func (b *Book) takeTurn() bool {
	select {
	case b.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// giveBack gives back all that is left of a term.
func (b *Book) giveBack(ctx context.Context, t *term, now time.Time) {
	t.keep(0)
	if now.Before(t.retry) {
		return
	}
	if _, err := b.bring(ctx, t, 0, now, func(int64) int64 { return 0 }); err == nil {
		t.calm()
	}
}

// supply brings what is held of a term to what is needed.
func (b *Book) supply(ctx context.Context, j job, now time.Time) {
	t, replicas := j.term, b.others.Load()+1
	if quota := t.quota.Load(); quota != j.limits.Quota {
		if quota > j.limits.Quota { // what was held by a larger one may be beyond this one
			t.keep(0)
		}
		t.quota.Store(j.limits.Quota)
		t.calm()
	}
	d := b.demand(j, now)
	if d.pressed && t.keep(d.least()) {
		t.calm()
	}
	if now.Before(t.retry) || t.read && !t.unclear && t.lapses.Load() == b.lapses.Load() && t.left.Load() > t.low.Load() {
		return
	}
	done, err := b.bring(ctx, t, j.limits.Quota, now, func(free int64) int64 { return d.level(free, replicas) })
	if err != nil {
		return
	}
	if left, least := t.left.Load(), d.least(); done.free == 0 && left < least {
		b.lack(t, j.account, replicas, now)
	} else {
		t.enough(left, least, done.free == 0)
	}
}

// enough notes that there is enough of a term, and when there will not be. Where all is given
// out, half of what is left is no reason to ask.
func (t *term) enough(left, least int64, all bool) {
	low := left / 2
	if all {
		low = min(low, least)
	}
	t.low.Store(low)
	t.asked.Store(false)
	t.none.Store(false)
	t.since = time.Time{}
	t.calm()
}

// lack notes that there is too little of a term, while nothing more is to be had.
func (b *Book) lack(t *term, a *account, replicas int64, now time.Time) {
	if t.since.IsZero() {
		t.since = now
	}
	if replicas > 1 {
		b.wanting.Add(a.slot)
	}
	t.none.Store(!b.recovering.Load() && (replicas == 1 || now.Sub(t.since) >= handover))
	t.wait(now, emptyPause)
}

// demand is what is known of a key's.
func (b *Book) demand(j job, now time.Time) demand {
	d := demand{asked: j.asked.Load(), pressed: now.UnixNano()-j.account.wanted.Load() < int64(pressing)}
	shape := j.limits.Bucket
	d.rate = float64(time.Second) / float64(shape.Token)
	if j.began > now.UnixNano() { // nothing was spent of it yet
		d.tokens = shape.Burst / shape.Token
		return d
	}
	d.tokens, _ = b.cfg.Buckets.Left(j.account.slot, shape, int64(now.Sub(b.cfg.Start)))
	d.pace = j.sample.measure(j.spent(), now)
	return d
}

// bring brings what is held of a term to the store.
func (b *Book) bring(ctx context.Context, t *term, quota int64, now time.Time, level func(int64) int64) (settled, error) {
	done, err := t.settle(ctx, b, quota, level)
	if err == nil {
		b.writes.Add(1)
		return done, nil
	}
	b.failures.Add(1)
	t.wait(now, failedPause)
	if ctx.Err() == nil {
		b.cfg.Log.Warn("quota not leased", "key", string(t.Prefix), "period", t.ID(), "error", err)
	}
	return done, err
}
