package webhook

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	// maxBody bounds a call's body, in bytes (promise W6).
	maxBody = 1 << 20

	// heldBodies bounds the buffers of all bodies of a kind together.
	heldBodies = 16 << 20

	// bodyPatience is how long a body waits for room.
	bodyPatience = 3 * time.Second

	// unprovenRead is for the whole body of a call that has proven nothing yet, and for
	// what is left of one that is refused.
	unprovenRead = 5 * time.Second
)

// newBodies returns the buffers of one kind of bodies. With both kinds full, the process stays
// far below its memory limit of 192 MiB, and no sender can keep the others out.
func newBodies() *httpapi.Bodies {
	return httpapi.NewBodies(httpapi.BodyQuota{Body: maxBody, All: heldBodies, Share: heldBodies / 4, Wait: bodyPatience, Retry: bodyPatience})
}

const (
	// slots is how many apps, or addresses, are told apart. Names are hashed to slots, so
	// that made-up names cannot fill the memory; those that share a slot share its limit,
	// and a random seed keeps a stranger from aiming for it. With 60 calls kept it is 2 MiB
	// at most, with 300 it is 10 MiB.
	slots = 1 << 12

	window = time.Minute
)

// limit lets through so many calls of a name in any minute, exactly: it keeps the times
// of the latest ones.
type limit struct {
	most  int
	seed  maphash.Seed
	start time.Time // times are kept as distances from here, by the monotonic clock

	mu    sync.Mutex
	rings [slots]ring
}

// ring is the times of the latest calls of a slot, oldest at next once it is full.
type ring struct {
	times []time.Duration
	next  int
}

func newLimit(most int, start time.Time) *limit {
	return &limit{most: most, seed: maphash.MakeSeed(), start: start}
}

// take counts a call. Problem: rate_limited with the time until the next one is let
// through, and then nothing is counted.
func (l *limit) take(name string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := now.Sub(l.start)
	r := &l.rings[maphash.String(l.seed, name)%slots]
	if len(r.times) < l.most {
		r.times = append(r.times, at)
		return nil
	}
	if wait := window - (at - r.times[r.next]); wait > 0 {
		return problem.New(problem.RateLimited, "At most %d calls a minute; wait before you try again.", l.most).After(wait)
	}
	r.times[r.next] = at
	r.next = (r.next + 1) % l.most
	return nil
}
