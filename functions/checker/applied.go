package checker

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/checkers"
)

// applied holds the time, by the store's clock, up to which a collection is applied. Every decision
// uses all changes committed before that time.
type applied struct {
	mu            sync.Mutex
	at            time.Time
	changed       chan struct{} // closed and replaced when at changes
	invalidations int
}

// set records a time after a delay, unless invalidate is called in the meantime.
func (a *applied) set(at time.Time, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delay == 0 {
		a.advance(at)
		return
	}
	invalidations := a.invalidations
	time.AfterFunc(delay, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.invalidations == invalidations {
			a.advance(at)
		}
	})
}

func (a *applied) invalidate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.invalidations++
	a.at = time.Time{}
}

// advance must be called with mu held.
func (a *applied) advance(at time.Time) {
	if !at.After(a.at) {
		return
	}
	a.at = at
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// get returns the time and a channel that is closed when it changes.
func (a *applied) get() (at time.Time, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	return a.at, a.changed
}

func (a *applied) time() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// reach waits until c is reached or ctx ends, and returns the time.
func (a *applied) reach(ctx context.Context, c time.Time) time.Time {
	for {
		at, changed := a.get()
		if !at.Before(c) {
			return at
		}
		select {
		case <-ctx.Done():
			return a.time() // it may have been invalidated
		case <-changed:
		}
	}
}

const maxAppliedCalls = 256

// serveApplied serves GET /applied, with which callers wait until this replica has applied a change
// (package checkers). It responds when the requested times are reached, or after
// [checkers.AckTimeout]. It returns 400 for an invalid query, and 503 if too many calls are waiting.
func (c *Checker) serveApplied(w http.ResponseWriter, r *http.Request) {
	want, err := checkers.ParseChange(r.URL.RawQuery)
	if err != nil || r.Method != http.MethodGet {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	select {
	case c.appliedCalls <- struct{}{}:
		defer func() { <-c.appliedCalls }()
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkers.AckTimeout)
	defer cancel()
	ack := checkers.Ack{
		Replica: c.cfg.Replica, Run: c.process,
		Keys: c.streams[keyStream].applied.reach(ctx, want.Keys), Plans: c.streams[planStream].applied.reach(ctx, want.Plans),
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(ack) // the client may have gone
}
