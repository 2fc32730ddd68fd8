package checker

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/checkers"
)

// applied is up to when a stream's collection has been applied, by the store's clock:
// every request decided from now on sees what was committed until then (package inforce).
type applied struct {
	mu     sync.Mutex
	at     time.Time
	moved  chan struct{} // closed, and replaced, when at moves; nil while nobody waits
	doubts int
}

// set notes that all until a time is applied, once a delay has passed without a doubt.
func (a *applied) set(at time.Time, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delay == 0 {
		a.move(at)
		return
	}
	doubts := a.doubts
	time.AfterFunc(delay, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.doubts == doubts {
			a.move(at)
		}
	})
}

// doubt forgets which changes are applied.
func (a *applied) doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubts++
	a.at = time.Time{}
}

// move notes a later time. The caller holds mu.
func (a *applied) move(at time.Time) {
	if !at.After(a.at) {
		return
	}
	a.at = at
	if a.moved != nil {
		close(a.moved)
		a.moved = nil
	}
}

// get gives that time, and what is closed when it moves.
func (a *applied) get() (at time.Time, moved <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.moved == nil {
		a.moved = make(chan struct{})
	}
	return a.at, a.moved
}

func (a *applied) time() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// reach waits until c is applied or ctx ends, and gives what is.
func (a *applied) reach(ctx context.Context, c time.Time) time.Time {
	for {
		at, moved := a.get()
		if !at.Before(c) {
			return at
		}
		select {
		case <-ctx.Done():
			return a.time() // a doubt may have come since
		case <-moved:
		}
	}
}

// asking is how many may wait at one time to be told what is applied.
const asking = 256

// serveApplied answers what this replica has applied, to those who wait for a change:
// once it has reached what they name, or after a while (see [checkers.Ack]).
func (c *Checker) serveApplied(w http.ResponseWriter, r *http.Request) {
	want, err := checkers.ParseChange(r.URL.RawQuery)
	if err != nil || r.Method != http.MethodGet {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	select {
	case c.asked <- struct{}{}:
		defer func() { <-c.asked }()
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkers.AckTimeout)
	defer cancel()
	word := checkers.Ack{
		Replica: c.cfg.Replica, Run: c.process,
		Keys: c.streams[keyStream].applied.reach(ctx, want.Keys), Plans: c.streams[planStream].applied.reach(ctx, want.Plans),
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(word) // who has hung up does not want to know
}
