package identity

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Lane says whose password is hashed before whose, when more come than can be hashed at
// once: strangers must not keep those waiting who are known.
type Lane int

// The lanes, first come first.
const (
	Known    Lane = iota // has a session, or has signed in before from there
	Stranger             // comes from an address that has no failure to its name
	Failing              // comes from one that has

	lanes = 3
)

const (
	maxWaiting      = 64              // in each lane; who comes after is sent away
	maxHashWait     = 5 * time.Second // for a place
	maxStrangerWait = 2 * time.Second // of a stranger, who had better come again than hold on
)

// queue lets so many in at once, by their lanes. One place of several is kept for those
// who are known, so that they need not even wait for a stranger's hash to end.
type queue struct {
	kept int // places that only the known take

	mu      sync.Mutex
	free    int
	waiting [lanes][]chan struct{} // a place is handed over by closing
}

func newQueue(places int) *queue {
	return &queue{kept: min(places-1, 1), free: places}
}

// enter waits for a place, to be given back by leave. Problems: rate_limited for
// strangers when it takes too long, and for all when too many wait already; unavailable
// for those who are known when it takes too long.
func (q *queue) enter(ctx context.Context, lane Lane) error {
	q.mu.Lock()
	if q.open(lane) {
		q.free--
		q.mu.Unlock()
		return nil
	}
	if len(q.waiting[lane]) >= maxWaiting {
		q.mu.Unlock()
		return crowded()
	}
	place := make(chan struct{})
	q.waiting[lane] = append(q.waiting[lane], place)
	q.mu.Unlock()

	wait := maxHashWait
	if lane != Known {
		wait = maxStrangerWait
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
	if i < 0 { // it came at the same moment
		q.leave()
	}
	if lane != Known {
		return crowded()
	}
	return problem.Of(problem.Unavailable).Because(ctx.Err())
}

func crowded() error {
	return problem.New(problem.RateLimited, "Too many people are signing in; try again in a moment.").After(time.Second)
}

// leave gives a place back, to the first of the first lane that may have it.
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

// open tells whether there is a place for a lane.
func (q *queue) open(lane Lane) bool {
	if lane == Known {
		return q.free > 0
	}
	return q.free > q.kept
}
