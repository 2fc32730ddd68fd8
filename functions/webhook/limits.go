package webhook

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	// maxBody is the maximum size of a body in bytes (promise W6).
	maxBody = 1 << 20

	// heldBodies is the maximum total size of the buffered bodies of calls with a token, and of
	// calls with a signature.
	heldBodies = 16 << 20

	bodyPatience = 3 * time.Second

	// unverifiedRead limits the time to read the body of an unverified or rejected call.
	unverifiedRead = 5 * time.Second
)

// newBodies returns the buffers for one kind of call. With both kinds full, the process stays
// well below its memory limit of 192 MiB.
func newBodies() *httpapi.Bodies {
	return httpapi.NewBodies(httpapi.BodyQuota{Body: maxBody, All: heldBodies, Share: heldBodies / 4, Wait: bodyPatience, Retry: bodyPatience})
}

const (
	// slots is the number of hash slots of a limit. It bounds the memory: 2 MiB with 60 calls a
	// slot, 10 MiB with 300. Names in the same slot share its limit. The random seed prevents
	// clients from choosing a slot.
	slots = 1 << 12

	window = time.Minute
)

// limit allows an exact number of calls per name in any minute.
type limit struct {
	most  int
	seed  maphash.Seed
	start time.Time // times are relative to it, by the monotonic clock

	mu    sync.Mutex
	rings [slots]ring
}

// ring holds the times of the latest calls. Once it is full, next is the index of the oldest.
type ring struct {
	times []time.Duration
	next  int
}

func newLimit(most int, start time.Time) *limit {
	return &limit{most: most, seed: maphash.MakeSeed(), start: start}
}

// take counts a call. If the limit is reached, it returns a rate_limited problem instead.
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
		return problem.New(problem.RateLimited, "At most %d calls per minute are allowed. Retry after the time in Retry-After.", l.most).WithRetryAfter(wait)
	}
	r.times[r.next] = at
	r.next = (r.next + 1) % l.most
	return nil
}
