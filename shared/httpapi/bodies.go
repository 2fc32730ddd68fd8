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

const firstBuffer = 1 << 10

// BodyQuota limits the memory of request bodies, in bytes.
type BodyQuota struct {
	Body  int           // per body
	All   int           // for all bodies
	Share int           // per sender
	Wait  time.Duration // time for which a body waits for memory
	Retry time.Duration // Retry-After of a rejected body
}

// Bodies reads request bodies within a quota. Buffers grow by doubling, so a sender must send at
// least half of the memory that it occupies.
type Bodies struct {
	quota BodyQuota

	mu     sync.Mutex
	held   int
	shares map[string]int // memory by sender
	freed  chan struct{}  // closed and replaced when memory is released
}

// NewBodies returns Bodies with the quota q.
func NewBodies(q BodyQuota) *Bodies {
	return &Bodies{quota: q, shares: map[string]int{}, freed: make(chan struct{})}
}

// Read reads the body of a request. free releases its memory and is never nil. Read returns a
// body_too_large problem, a malformed_json problem if the body is truncated or too slow, or a
// rate_limited problem if no memory becomes available.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, sender string) (body []byte, free func(), err error) {
	source, held := http.MaxBytesReader(w, r.Body, int64(b.quota.Body)), 0
	free = func() { b.release(sender, held) }
	for {
		if len(body) == cap(body) {
			size := min(max(firstBuffer, 2*cap(body)), b.quota.Body+1) // one more byte to detect the end
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

// Held returns the total size of all buffers.
func (b *Bodies) Held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

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
			return problem.New(problem.RateLimited, "Too many request bodies are being read. Retry after the time in Retry-After.").WithRetryAfter(b.quota.Retry)
		}
	}
}

// take reserves n bytes. If they are not available, it returns a channel that is closed when memory
// is released.
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

func (b *Bodies) release(sender string, n int) {
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
