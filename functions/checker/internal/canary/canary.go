// Package canary proves that changes still reach this replica (promise F2). The package doc of
// checker contains the argument, in which w is the start of a canary's write.
package canary

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const never = math.MinInt64

// Types is the number of data types: keys, plans and counters.
const Types = 3

// Proof holds the times up to which each data type is proven.
type Proof struct {
	ceiling time.Duration
	until   atomic.Int64 // end of the proof, in nanoseconds since start
	start   time.Time
	lapsed  func()

	mu        sync.Mutex
	tasks     [Types]task
	latestEnd int64
}

type task struct {
	seq      int64
	begun    map[int64]int64 // start of each write whose canary has not returned, by seq
	returned int64           // highest seq that has returned since the last doubt
	doubt    chan struct{}   // contains a value until a doubt is handled
	proven   int64           // latest start of a write whose canary has returned
}

// New returns a Proof in which nothing is proven. start must have a monotonic reading.
//
// lapsed is called before the view becomes fresh after a time without a valid proof, or if the
// first proof took longer than the ceiling. It is not called after a doubt if a new proof arrives
// before the previous one would have ended.
func New(ceiling time.Duration, start time.Time, lapsed func()) *Proof {
	p := &Proof{ceiling: ceiling, start: start, lapsed: lapsed, latestEnd: int64(ceiling)}
	for i := range p.tasks {
		p.tasks[i] = task{begun: map[int64]int64{}, proven: never, doubt: make(chan struct{}, 1)}
	}
	p.until.Store(never)
	return p
}

// Fresh reports whether the view is proven to be younger than the ceiling at now.
func (p *Proof) Fresh(now time.Time) bool { return p.since(now) < p.until.Load() }

// Begin returns the sequence number of the next canary. Call it before the write.
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

// Echo records that canary seq of type t has returned by now, and that everything up to it is in
// the view.
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
	k.proven, k.returned = max(k.proven, w), max(k.returned, seq)
	p.update(now)
}

// Confirmed reports whether canary seq or a later one has returned, without a doubt since.
func (p *Proof) Confirmed(t int, seq int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return seq <= p.tasks[t].returned
}

// Invalidated returns a channel that receives a value after a doubt about type t.
func (p *Proof) Invalidated(t int) <-chan struct{} { return p.tasks[t].doubt }

// Invalidate invalidates the proof of type t, because the view may be incomplete. A canary whose write
// begins later can renew the proof.
func (p *Proof) Invalidate(t int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &p.tasks[t]
	k.proven, k.returned = never, 0
	clear(k.begun)
	select {
	case k.doubt <- struct{}{}:
	default:
	}
	p.until.Store(never)
}

// Age returns the age of the proof of type t at now. ok is false if there is none.
func (p *Proof) Age(t int, now time.Time) (age time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.tasks[t].proven
	return time.Duration(p.since(now) - w), w != never
}

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
	if p.latestEnd <= at && at < until {
		p.lapsed()
	}
	p.latestEnd = max(p.latestEnd, until)
	p.until.Store(until)
}

func (p *Proof) since(now time.Time) int64 { return int64(now.Sub(p.start)) }
