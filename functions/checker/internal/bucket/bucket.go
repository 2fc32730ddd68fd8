// Package bucket limits each key's rate with a token bucket in memory (promise P5).
//
// It implements the generic cell rate algorithm. A bucket is one integer: the theoretical arrival
// time (TAT), at which it will be full again. A request moves the TAT forward by the time of one
// token. It is denied if the bucket would then need longer to fill than an empty one.
//
// The requests of other replicas move the TAT forward as well (package peers), beyond that of an
// empty bucket if necessary. The bucket is then in debt and allows no requests.
package bucket

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/shared/plan"
)

// Params is a plan's rate and burst as durations in nanoseconds.
type Params struct {
	Token int64 // refills one token
	Burst int64 // refills an empty bucket
}

// ShapeOf returns the durations of a plan. It rounds the time of a token up, so that a bucket never
// allows more than the plan's rate.
func ShapeOf(l plan.Limits) Params {
	token := int64(math.Ceil(1e9 / l.Rate))
	return Params{Token: token, Burst: token * l.Burst}
}

// MaxWithin returns the maximum number of requests that a bucket allows within d.
func (s Params) MaxWithin(d time.Duration) uint64 {
	return uint64(max(int64(d)+s.Burst, 0)) / uint64(s.Token) //nolint:gosec // a token takes some time
}

// Buckets holds the bucket of every key, by slot.
type Buckets struct {
	tats  slots.Table[atomic.Int64]
	busy  slots.Set
	peers atomic.Int64
}

// slack is the time, at the plan's rate, for which a replica may allow requests before its
// counts arrive.
const slack = int64(time.Second)

// Grow makes room for the slots below n. New buckets are full.
func (b *Buckets) Grow(n uint32) {
	b.tats.Grow(n)
	b.busy.Grow(n)
}

// Reset fills a slot's bucket.
func (b *Buckets) Reset(slot uint32) { b.tats.At(slot).Store(0) }

// SetPeerCount sets the number of other replicas.
func (b *Buckets) SetPeerCount(n int) { b.peers.Store(int64(n)) }

// Busy returns the keys whose counts must be sent to other replicas, because all replicas together
// may exceed the rate.
func (b *Buckets) Busy() *slots.Set { return &b.busy }

// Take takes one token and reports whether there was one. now is in nanoseconds by a monotonic
// clock, and not negative.
func (b *Buckets) Take(slot uint32, s Params, now int64) bool {
	cell := b.tats.At(slot)
	peers := b.peers.Load()
	for {
		was := cell.Load()
		next := max(was, now) + s.Token
		if next-now <= s.Burst {
			if !cell.CompareAndSwap(was, next) {
				continue
			}
			// A key is busy from half of an equal share of the rate (package peers), estimated by
			// the time since its last request.
			if peers > 0 && now-was < (2*peers+1)*s.Token {
				b.busy.Add(slot)
			}
			return true
		}
		// A previous plan with a lower rate may have left a larger debt than this plan permits.
		if limit := now + s.maxDebt(peers); was <= limit || cell.CompareAndSwap(was, limit) {
			return false
		}
	}
}

// maxDebt returns the longest time to fill a bucket: empty, and in debt for all requests that other
// replicas can allow before their counts arrive.
func (s Params) maxDebt(peers int64) int64 {
	if peers == 0 {
		return s.Burst
	}
	return s.Burst + peers*(s.Burst+slack)
}

// Deficit returns the nanoseconds until a slot's bucket is full.
func (b *Buckets) Deficit(slot uint32, now int64) int64 {
	return max(b.tats.At(slot).Load()-now, 0)
}

// Charge takes tokens for the requests of other replicas, into debt only if debt is true. It
// returns the previous time until the bucket was full, and the added time.
func (b *Buckets) Charge(slot uint32, s Params, now int64, tokens uint64, debt bool) (before, by int64) {
	limit := s.Burst
	if debt {
		limit = s.maxDebt(b.peers.Load())
	}
	cell := b.tats.At(slot)
	for {
		was := cell.Load()
		before = max(was-now, 0)
		after := max(before, min(before+s.Time(tokens), limit))
		if cell.CompareAndSwap(was, now+after) {
			return before, after - before
		}
	}
}

// Time returns the time that refills a number of tokens.
func (s Params) Time(tokens uint64) int64 {
	if most := uint64(math.MaxInt64/4) / uint64(s.Token); tokens > most { //nolint:gosec // a token takes some time
		tokens = most
	}
	return int64(tokens) * s.Token //nolint:gosec // bounded above
}

// Tokens returns the number of tokens that a time refills, rounded up.
func (s Params) Tokens(behind int64) uint64 {
	return uint64(max(behind+s.Token-1, 0) / s.Token) //nolint:gosec // not negative
}

// Refund undoes a charge.
func (b *Buckets) Refund(slot uint32, by int64) { b.tats.At(slot).Add(-by) }

// Available returns the number of tokens in a slot's bucket, and the time until the next one if there
// is none. now is as for [Buckets.Take].
func (b *Buckets) Available(slot uint32, s Params, now int64) (tokens int64, wait time.Duration) {
	filled := min(now+s.Burst-b.tats.At(slot).Load(), s.Burst)
	if filled < s.Token {
		return 0, time.Duration(s.Token - filled)
	}
	return filled / s.Token, 0
}
