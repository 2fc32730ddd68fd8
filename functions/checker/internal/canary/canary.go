// Package canary proves that changes still reach this replica (promise F2).
//
// The argument: a listener delivers a collection's changes in commit order. So
// when a canary comes back through the listener whose writing began at w,
// everything committed before w has been seen. The replica may allow while
// now − w is below the ceiling, for the oldest w of the three data types. w is
// read from the monotonic clock before the write begins: not when the write
// returns, not when the echo comes, and no clock but this process's own.
//
// A listener's end does not take its last proof back: what it had seen by w it
// has seen, and the proof ages all the same. No echo counts until the listener
// has started over with a full batch. Only what puts the view itself in doubt
// takes the proof back at once ([Proof.Doubt]).
package canary

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// never is before any time that the clock gives.
const never = math.MinInt64

// Types is how many data types must be proven: keys, plans, counters.
const Types = 3

// Proof holds what has been proven, as times on the process's own clock.
type Proof struct {
	ceiling time.Duration
	until   atomic.Int64 // the replica may allow before this, in nanoseconds since start
	start   time.Time
	lapsed  func()

	mu    sync.Mutex
	tasks [Types]task
	last  int64 // the latest time before which the replica was ever allowed to allow
}

// task is the proof of one data type.
type task struct {
	seq    int64           // of the last canary begun
	begun  map[int64]int64 // when each unanswered canary was begun, by seq; those too old to prove anything are dropped
	heard  int64           // the highest seq that has come back since the last doubt
	doubt  chan struct{}   // holds one while a doubt has not been acted on
	proven int64           // the latest begin that has come back
}

// New makes a Proof in which nothing is proven. start is the process's own zero
// of time and carries a monotonic reading. lapsed is called before the view is fresh again
// after a time without any valid proof, or if the first proof takes longer than the ceiling.
// Until that call returns, the view is not fresh. A doubt is not such a time as long as the
// previous proof would still be valid.
func New(ceiling time.Duration, start time.Time, lapsed func()) *Proof {
	p := &Proof{ceiling: ceiling, start: start, lapsed: lapsed, last: int64(ceiling)}
	for i := range p.tasks {
		p.tasks[i] = task{begun: map[int64]int64{}, proven: never, doubt: make(chan struct{}, 1)}
	}
	p.until.Store(never)
	return p
}

// Fresh tells whether the view is proven to be younger than the ceiling at now.
// It takes no lock.
func (p *Proof) Fresh(now time.Time) bool { return p.since(now) < p.until.Load() }

// Begin notes that a canary of type t is about to be written, and gives its
// sequence number. Call it before the write.
func (p *Proof) Begin(t int, now time.Time) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &p.tasks[t]
	k.seq++
	w := p.since(now)
	k.begun[k.seq] = w
	maps.DeleteFunc(k.begun, func(_, begun int64) bool { return w-begun >= int64(p.ceiling) })
	return k.seq
}

// Echo notes that canary seq of type t has come back through its listener by now, and
// that all that came with it or before it is in the view.
func (p *Proof) Echo(t int, seq int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &p.tasks[t]
	w, ok := k.begun[seq]
	if !ok {
		return
	}
	for s := range k.begun {
		if s <= seq {
			delete(k.begun, s)
		}
	}
	k.proven, k.heard = max(k.proven, w), max(k.heard, seq)
	p.update(now)
}

// Answered tells whether canary seq of type t, or a later one, has come back, and
// nothing was in doubt since.
func (p *Proof) Answered(t int, seq int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return seq <= p.tasks[t].heard
}

// Doubted gives what receives one value after a doubt of type t.
func (p *Proof) Doubted(t int) <-chan struct{} { return p.tasks[t].doubt }

// Doubt takes back what was proven of type t: until a canary begun from now on
// comes back, the replica denies.
func (p *Proof) Doubt(t int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &p.tasks[t]
	k.proven, k.heard = never, 0
	clear(k.begun)
	select {
	case k.doubt <- struct{}{}:
	default:
	}
	p.until.Store(never)
}

// Age gives how old the proof of type t is at now; ok is false where there is none.
func (p *Proof) Age(t int, now time.Time) (age time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.tasks[t].proven
	return time.Duration(p.since(now) - w), w != never
}

// update computes until when the replica may allow. The caller holds mu.
func (p *Proof) update(now time.Time) {
	oldest := int64(math.MaxInt64)
	for _, k := range p.tasks {
		oldest = min(oldest, k.proven)
	}
	if oldest == never {
		p.until.Store(never)
		return
	}
	until, at := oldest+int64(p.ceiling), p.since(now)
	if p.last <= at && at < until {
		p.lapsed()
	}
	p.last = max(p.last, until)
	p.until.Store(until)
}

// since is the time from the process's start to now by the monotonic clock.
func (p *Proof) since(now time.Time) int64 { return int64(now.Sub(p.start)) }
