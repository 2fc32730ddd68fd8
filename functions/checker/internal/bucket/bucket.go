// Package bucket limits each key's rate with a token bucket, in each checker replica
// for itself and in memory only: a best-effort ceiling (promise P5).
//
// A bucket is one integer: the instant at which it will be full again. A request
// moves it forward by the time that one token takes to come back, and is denied
// where that would pass the time that a whole burst takes. This is the bucket in
// the form of the generic cell rate algorithm: no refill loop, no lock, 8 bytes
// a key.
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
	full slots.Table[atomic.Int64]
}

// Grow makes room for slots below n. A new bucket is full.
func (b *Buckets) Grow(n uint32) { b.full.Grow(n) }

// Take takes one token from a slot's bucket and tells whether there was one.
// now is in nanoseconds on a clock that never goes back; negative is not allowed.
func (b *Buckets) Take(slot uint32, s Shape, now int64) bool {
	cell := b.full.At(slot)
	for {
		was := cell.Load()
		next := max(was, now) + s.Token
		if next-now <= s.Burst {
			if cell.CompareAndSwap(was, next) {
				return true
			}
			continue
		}
		// A plan that filled more slowly may have left the bucket further behind
		// than an empty one is under this plan: empty is the worst it can be.
		if empty := now + s.Burst; was <= empty || cell.CompareAndSwap(was, empty) {
			return false
		}
	}
}

// Left is how many tokens a slot's bucket holds, and, where it holds none, the time until
// it has one. now is as for [Buckets.Take].
func (b *Buckets) Left(slot uint32, s Shape, now int64) (tokens int64, wait time.Duration) {
	filled := min(now+s.Burst-b.full.At(slot).Load(), s.Burst)
	if filled < s.Token {
		return 0, time.Duration(s.Token - filled)
	}
	return filled / s.Token, 0
}
