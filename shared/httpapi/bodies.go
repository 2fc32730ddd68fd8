package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// firstBuffer is the size of an empty body's buffer, in bytes.
const firstBuffer = 1 << 10

// BodyQuota bounds the memory of request bodies, in bytes.
type BodyQuota struct {
	Body  int           // of one body
	All   int           // of all bodies together
	Share int           // of the bodies of one sender
	Wait  time.Duration // how long a body waits for room
	Retry time.Duration // the Retry-After of a body without room
}

// Bodies reads request bodies within a quota. The buffer of a body doubles as it fills, so a
// sender has to send about as much as it makes the process hold.
type Bodies struct {
	quota BodyQuota

	mu     sync.Mutex
	held   int
	shares map[string]int // by sender, without those that hold nothing
	freed  chan struct{}  // closed and replaced when memory is released
}

// NewBodies returns Bodies that hold nothing.
func NewBodies(q BodyQuota) *Bodies {
	return &Bodies{quota: q, shares: map[string]int{}, freed: make(chan struct{})}
}

// Read reads a request's body for a sender. free releases its memory and is never nil. Problems:
// body_too_large; malformed_json for a body that is cut off or too slow; rate_limited if there
// is no room for it.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, sender string) (body []byte, free func(), err error) {
	source, held := http.MaxBytesReader(w, r.Body, int64(b.quota.Body)), 0
	free = func() { b.give(sender, held) }
	for {
		if len(body) == cap(body) {
			size := min(max(firstBuffer, 2*cap(body)), b.quota.Body+1) // the last byte is for the end
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
			return nil, free, BodyProblem(err)
		}
	}
}

// Held returns the size of all buffers.
func (b *Bodies) Held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// reserve waits for room. Problem: rate_limited.
func (b *Bodies) reserve(ctx context.Context, sender string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, b.quota.Wait)
	defer cancel()
	for {
		freed, ok := b.take(sender, n)
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return problem.New(problem.RateLimited, "Too many requests are being read; wait before you try again.").After(b.quota.Retry)
		}
	}
}

// take reserves n bytes, or returns a channel that is closed when memory is released.
func (b *Bodies) take(sender string, n int) (freed <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+n > b.quota.All || b.shares[sender]+n > b.quota.Share {
		return b.freed, false
	}
	b.held += n
	b.shares[sender] += n
	return nil, true
}

func (b *Bodies) give(sender string, n int) {
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
