package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	firstPause = 100 * time.Millisecond // doubles with every try
	maxPause   = 10 * time.Second       // a server that asks for more is not waited for
)

// pause waits before another try of a read, or tells that there should be none.
func (c *Client) pause(ctx context.Context, try int, err error) bool {
	wait, ok := backoff(try, err)
	if !ok || ctx.Err() != nil {
		return false
	}
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) < wait {
		return false // the reason is worth more to the caller than a timeout
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// backoff tells how long to wait after an error, and whether another try can
// help at all: after a failed connection, 429 and 5xx. Half of the pause is
// random, so that clients that failed together do not come back together.
func backoff(try int, err error) (time.Duration, bool) {
	wait := min(firstPause<<min(try-1, 10), maxPause)
	wait = wait/2 + rand.N(wait/2+1) //nolint:gosec // a pause needs no secrecy
	var e *Error
	if !errors.As(err, &e) {
		return wait, true
	}
	if e.Status != http.StatusTooManyRequests && e.Status < http.StatusInternalServerError {
		return 0, false
	}
	wait = max(wait, e.RetryAfter)
	return wait, wait <= maxPause
}
