package lease

import (
	"math"
	"time"
)

const (
	// minSupply is several times the delay of a write.
	minSupply = 300 * time.Millisecond

	// maxSupply avoids frequent writes for a busy key with a large quota.
	maxSupply = 10 * time.Second

	smallPart = 100
)

type demand struct {
	tokens     int64
	rate       float64 // of the plan, requests per second
	recentRate float64
	ranOut     bool
	peerShort  bool
}

// target returns the number of unspent requests that a replica should hold. free is the number
// that no other replica holds.
//
// The target is the number of tokens in the replica's bucket, plus the requests of 0.3 s at the
// higher of two rates: its recent rate, and its equal share of the plan's rate. Up to 10 s are
// leased instead of 0.3 s as long as their requests are at most 1% of free. The target never
// exceeds half of an equal share of free. If a peer is short, the target is only the minimum.
func (d demand) target(free, replicas int64) int64 {
	share := (free + 2*replicas - 1) / (2 * replicas)
	return min(d.need(free, replicas), share)
}

func (d demand) need(free, replicas int64) int64 {
	if d.peerShort {
		return d.minimum()
	}
	share := d.rate / float64(replicas) // the recent rate may rise to it
	return d.tokens + max(
		requestsIn(minSupply, max(d.recentRate, share)),
		min(requestsIn(maxSupply, d.recentRate), free/smallPart),
		min(requestsIn(maxSupply, share), free/smallPart/replicas),
	)
}

func requestsIn(t time.Duration, rate float64) int64 { return int64(math.Ceil(rate * t.Seconds())) }

// minimum returns the number of requests that a replica keeps even if a peer is short.
func (d demand) minimum() int64 {
	n := requestsIn(minSupply, d.recentRate)
	if d.ranOut {
		n = max(n, 1)
	}
	return n
}

type sample struct {
	at    time.Time
	spent int64
	rate  float64
}

const (
	sampleWindow = time.Second
	minSample    = sampleWindow / 4
)

func (s *sample) measure(spent int64, now time.Time) float64 {
	took := now.Sub(s.at)
	rate := float64(spent-s.spent) / max(took, minSample).Seconds()
	if took < sampleWindow {
		return max(rate, s.rate)
	}
	*s = sample{at: now, spent: spent, rate: rate}
	return rate
}
