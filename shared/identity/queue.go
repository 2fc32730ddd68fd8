package identity

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Lane is the priority of a password hash.
type Lane int

// The lanes in order of priority.
const (
	Known   Lane = iota // has a session, or a known device or address
	Unknown             // from an address without failures
	Failing             // from an address with failures

	lanes = 3
)

const (
	maxWaiting     = 64              // per lane
	maxHashWait    = 5 * time.Second // for known clients
	maxUnknownWait = 2 * time.Second // for other clients, which can retry
)

// queue limits concurrent hashes by lane. If it has several places, one is reserved for known
// clients.
type queue struct {
	reserved int

	mu      sync.Mutex
	free    int
	waiting [lanes][]chan struct{} // a closed channel hands over a place
}

func newQueue(places int) *queue {
	return &queue{reserved: min(places-1, 1), free: places}
}

// enter waits for a place. It returns a rate_limited problem if too many calls wait. If the wait
// takes too long, it returns an unavailable problem for known clients and a rate_limited problem
// for others.
func (q *queue) enter(ctx context.Context, lane Lane) error {
	q.mu.Lock()
	if q.open(lane) {
		q.free--
		q.mu.Unlock()
		return nil
	}
	if len(q.waiting[lane]) >= maxWaiting {
		q.mu.Unlock()
		return tooManyWaiting()
	}
	place := make(chan struct{})
	q.waiting[lane] = append(q.waiting[lane], place)
	q.mu.Unlock()

	wait := maxHashWait
	if lane != Known {
		wait = maxUnknownWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-place:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(q.waiting[lane], place)
	if i >= 0 {
		q.waiting[lane] = slices.Delete(q.waiting[lane], i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // the place arrived concurrently
		q.leave()
	}
	if lane != Known {
		return tooManyWaiting()
	}
	return problem.FromCode(problem.Unavailable).WithCause(ctx.Err())
}

func tooManyWaiting() error {
	return problem.New(problem.RateLimited, "Too many users are signing in. Retry after the time in Retry-After.").WithRetryAfter(time.Second)
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	for lane := Known; lane < lanes; lane++ {
		for len(q.waiting[lane]) > 0 && q.open(lane) {
			q.free--
			close(q.waiting[lane][0])
			q.waiting[lane] = q.waiting[lane][1:]
		}
	}
}

func (q *queue) open(lane Lane) bool {
	if lane == Known {
		return q.free > 0
	}
	return q.free > q.reserved
}
