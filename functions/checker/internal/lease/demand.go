package lease

import (
	"math"
	"time"
)

const (
	// soon is what a replica that is busy holds at least: it bridges the way to the store
	// and back, some times over.
	soon = 300 * time.Millisecond

	// later is what it holds at most, where that is little of what is left: so a key that is
	// busy all the time costs a write in several seconds.
	later = 10 * time.Second

	// little is which part of what is left a busy replica may hold for later, and all of them
	// together while they are idle.
	little = 100
)

// demand is what is known of what a replica will need of a key.
type demand struct {
	tokens  int64   // that its bucket lets through at once
	rate    float64 // requests a second that its plan allows all replicas together
	pace    float64 // requests a second that it allowed lately
	asked   bool    // a request found none left
	pressed bool    // another replica has too little
}

// level is how many requests a replica should hold, of those that no other one does.
func (d demand) level(free, replicas int64) int64 {
	part := (free + 2*replicas - 1) / (2 * replicas) // so that what is left is enough for all
	return min(d.need(free, replicas), part)
}

func (d demand) need(free, replicas int64) int64 {
	if d.pressed {
		return d.least()
	}
	part := d.rate / float64(replicas) // the pace may rise to that at once
	return d.tokens + max(
		within(soon, max(d.pace, part)),
		min(within(later, d.pace), free/little),
		min(within(later, part), free/little/replicas),
	)
}

// within is how many requests come in a time at a pace.
func within(t time.Duration, pace float64) int64 { return int64(math.Ceil(pace * t.Seconds())) }

// least is what a replica keeps although others have too little.
func (d demand) least() int64 {
	n := within(soon, d.pace)
	if d.asked {
		n = max(n, 1)
	}
	return n
}

// sample measures a pace.
type sample struct {
	at    time.Time // since when
	spent int64     // by then
	pace  float64   // before
}

const (
	// window is over how long a pace is measured.
	window = time.Second
	// glance is the least time that says something of one.
	glance = window / 4
)

// pace is how many requests a second were spent lately.
func (s *sample) measure(spent int64, now time.Time) float64 {
	took := now.Sub(s.at)
	pace := float64(spent-s.spent) / max(took, glance).Seconds()
	if took < window {
		return max(pace, s.pace)
	}
	*s = sample{at: now, spent: spent, pace: pace}
	return pace
}
