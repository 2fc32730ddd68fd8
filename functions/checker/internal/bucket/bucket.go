// Package bucket limits each key's rate with a token bucket, in memory (promise P5). Each
// checker replica decides from its own buckets alone, without a hop; what other replicas
// allow is taken off them a moment later (package peers).
//
// A bucket is one integer: the instant at which it will be full again. A request
// moves it forward by the time that one token takes to come back, and is denied
// where that would pass the time that a whole burst takes. This is the bucket in
// the form of the generic cell rate algorithm: no refill loop, no lock, 8 bytes
// a key.
//
// What others have allowed is charged by moving the instant forward as well, further than
// an empty bucket if need be: a debt, in which nothing is allowed. So the sum that
// replicas allow is the plan's in the long run, whatever they each allow at one moment.
package bucket

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/shared/plan"
)

// Shape is a plan's rate and burst as times, in nanoseconds.
type Shape struct {
	Token int64 // in which one token comes back
	Burst int64 // in which an empty bucket fills
}

// ShapeOf turns a plan's rate and burst into times. A token's time is rounded
// up, so that rounding never admits more than the plan's rate.
func ShapeOf(l plan.Limits) Shape {
	token := int64(math.Ceil(1e9 / l.Rate))
	return Shape{Token: token, Burst: token * l.Burst}
}

// Most is how many requests a bucket lets through within d, however full it is.
func (s Shape) Most(d time.Duration) uint64 {
	return uint64(max(int64(d)+s.Burst, 0)) / uint64(s.Token) //nolint:gosec // a token takes some time
}

// Buckets holds the bucket of every key, by slot.
type Buckets struct {
	full   slots.Table[atomic.Int64]
	busy   slots.Set
	others atomic.Int64 // replicas that allow requests of the same keys
}

// slack is what a replica can have allowed by its rate, beside a burst, before it is heard.
const slack = int64(time.Second)

// Grow makes room for slots below n. A new bucket is full.
func (b *Buckets) Grow(n uint32) {
	b.full.Grow(n)
	b.busy.Grow(n)
}

// Reset fills a slot's bucket, for another key.
func (b *Buckets) Reset(slot uint32) { b.full.At(slot).Store(0) }

// SetOthers says how many other replicas there are.
func (b *Buckets) SetOthers(n int) { b.others.Store(int64(n)) }

// Busy are the keys that must be spoken of with other replicas, a set that is taken out of
// by one goroutine: those of which this replica alone allows so much that all together
// may allow more than the plan's rate.
func (b *Buckets) Busy() *slots.Set { return &b.busy }

// Take takes one token from a slot's bucket and tells whether there was one.
// now is in nanoseconds on a clock that never goes back; negative is not allowed.
func (b *Buckets) Take(slot uint32, s Shape, now int64) bool {
	cell := b.full.At(slot)
	others := b.others.Load()
	for {
		was := cell.Load()
		next := max(was, now) + s.Token
		if next-now <= s.Burst {
			if !cell.CompareAndSwap(was, next) {
				continue
			}
			// Half of an even share of the rate, by the time since the last request: if all
			// together allow more than the rate, at least one allows an even share of it.
			if others > 0 && now-was < (2*others+1)*s.Token {
				b.busy.Add(slot)
			}
			return true
		}
		// A plan that filled more slowly may have left the bucket further behind than it
		// can be under this plan: that is the worst it is.
		if worst := now + s.worst(others); was <= worst || cell.CompareAndSwap(was, worst) {
			return false
		}
	}
}

// worst is how far behind a full bucket one can be: empty, and in debt of what others can
// have allowed before they are heard.
func (s Shape) worst(others int64) int64 {
	if others == 0 {
		return s.Burst
	}
	return s.Burst + others*(s.Burst+slack)
}

// Behind is how far behind a full bucket a slot's is, in nanoseconds.
func (b *Buckets) Behind(slot uint32, now int64) int64 {
	return max(b.full.At(slot).Load()-now, 0)
}

// Charge takes tokens off a slot's bucket that others have allowed, into debt unless told
// otherwise. It gives how far behind the bucket was before, and how much further it is now.
func (b *Buckets) Charge(slot uint32, s Shape, now int64, tokens uint64, debt bool) (before, by int64) {
	limit := s.Burst
	if debt {
		limit = s.worst(b.others.Load())
	}
	cell := b.full.At(slot)
	for {
		was := cell.Load()
		before = max(was-now, 0)
		after := max(before, min(before+s.Time(tokens), limit))
		if cell.CompareAndSwap(was, now+after) {
			return before, after - before
		}
	}
}

// Time is in which tokens come back.
func (s Shape) Time(tokens uint64) int64 {
	if most := uint64(math.MaxInt64/4) / uint64(s.Token); tokens > most { //nolint:gosec // a token takes some time
		tokens = most
	}
	return int64(tokens) * s.Token //nolint:gosec // bounded above
}

// Tokens is how many tokens come back in a time, a part of one counted as one.
func (s Shape) Tokens(behind int64) uint64 {
	return uint64(max(behind+s.Token-1, 0) / s.Token) //nolint:gosec // not negative
}

// GiveBack takes a charge back.
func (b *Buckets) GiveBack(slot uint32, by int64) { b.full.At(slot).Add(-by) }

// Left is how many tokens a slot's bucket holds, and, where it holds none, the time until
// it has one. now is as for [Buckets.Take].
func (b *Buckets) Left(slot uint32, s Shape, now int64) (tokens int64, wait time.Duration) {
	filled := min(now+s.Burst-b.full.At(slot).Load(), s.Burst)
	if filled < s.Token {
		return 0, time.Duration(s.Token - filled)
	}
	return filled / s.Token, 0
}
