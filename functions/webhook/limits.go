package webhook

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	// maxBody bounds a call's body, in bytes (promise W6).
	maxBody = 1 << 20

	// firstBuffer is what a body gets before its first byte is there; from then on its
	// buffer doubles as it fills. So whoever wants memory held has to send about as much.
	firstBuffer = 1 << 10

	// heldBodies bounds the buffers of all bodies of a kind together, and heldShare those
	// of one sender: with both kinds full the process stays far below its memory limit of
	// 192 MiB, and no sender can keep the others out.
	heldBodies = 16 << 20
	heldShare  = heldBodies / 4

	// bodyPatience is how long a body waits for others to be done with.
	bodyPatience = 3 * time.Second

	// unprovenRead is for the whole body of a call that has proven nothing yet, and for
	// what is left of one that is refused.
	unprovenRead = 5 * time.Second
)

// bodies are the buffers of the bodies that are being read or worked on.
type bodies struct {
	mu     sync.Mutex
	held   int
	shares map[string]int // by sender, without those that hold nothing
	freed  chan struct{}  // closed and replaced when something is given back
}

func newBodies() *bodies { return &bodies{shares: map[string]int{}, freed: make(chan struct{})} }

// read reads a request's body on a sender's account, until free is called. Problems:
// body_too_large, malformed_json for one that breaks off or comes too slowly,
// rate_limited when there is no room for it.
func (b *bodies) read(w http.ResponseWriter, r *http.Request, sender string) (body []byte, free func(), err error) {
	source, held := http.MaxBytesReader(w, r.Body, maxBody), 0
	free = func() { b.give(sender, held) }
	for {
		if len(body) == cap(body) {
			size := min(max(firstBuffer, 2*cap(body)), maxBody+1) // the last byte is for the end
			if err := b.reserve(r.Context(), sender, size-cap(body)); err != nil {
				return nil, free, err
			}
			held += size - cap(body)
			body = append(make([]byte, 0, size), body...)
		}
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, free, nil
		case err != nil:
			return nil, free, httpapi.BodyProblem(err)
		}
	}
}

// reserve waits for room. Problem: rate_limited.
func (b *bodies) reserve(ctx context.Context, sender string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, bodyPatience)
	defer cancel()
	for {
		freed, ok := b.take(sender, n)
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return problem.New(problem.RateLimited, "Too many calls are being read; wait before you try again.").After(bodyPatience)
		}
	}
}

// take takes n bytes, or tells what to wait for.
func (b *bodies) take(sender string, n int) (freed <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+n > heldBodies || b.shares[sender]+n > heldShare {
		return b.freed, false
	}
	b.held += n
	b.shares[sender] += n
	return nil, true
}

func (b *bodies) give(sender string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n == 0 {
		return
	}
	b.held -= n
	if b.shares[sender] -= n; b.shares[sender] == 0 {
		delete(b.shares, sender)
	}
	close(b.freed)
	b.freed = make(chan struct{})
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
