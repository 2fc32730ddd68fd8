package canary

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Writer writes canary seq of one data type to the store.
type Writer func(ctx context.Context, seq int64) error

// Prober writes the canaries of every data type periodically.
type Prober struct {
	Proof    *Proof
	Writers  [Types]Writer
	Interval time.Duration

	// Coming reports whether the listener of type t is receiving a full batch, which will
	// contain the last canary. It may be nil.
	Coming func(t int) bool

	Timeout time.Duration // for a write, and for a full batch to arrive
	Now     func() time.Time
	Log     *slog.Logger
}

// Run writes canaries until ctx ends. A failed write needs no retry: only a returned canary
// proves anything.
func (k *Prober) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for t := range k.Writers {
		wg.Go(func() { k.proveType(ctx, t) })
	}
	wg.Wait()
}

// retryDelay is the time after which another canary follows a canary that has not returned. It
// doubles each time. While a full batch is being received, no canary is written: for each change,
// the emulator would send everything again.
const retryDelay = time.Second

func (k *Prober) proveType(ctx context.Context, t int) {
	first := min(k.Interval, retryDelay)
	for wait := first; ; {
		begun := k.Now()
		seq, written := k.write(ctx, t)
		reason := k.pause(ctx, t, wait)
		for written && reason == elapsed && k.snapshotPending(t, begun) && !k.Proof.Confirmed(t, seq) {
			reason = k.pause(ctx, t, first)
		}
		switch {
		case reason == ended:
			return
		case !k.Proof.Confirmed(t, seq):
			wait = min(2*wait, k.Interval)
			continue
		}
		wait = first
		if k.pause(ctx, t, k.Interval-k.Now().Sub(begun)) == ended {
			return
		}
	}
}

// snapshotPending reports whether the canary of begun may still return in a full batch.
func (k *Prober) snapshotPending(t int, begun time.Time) bool {
	return k.Coming != nil && k.Coming(t) && k.Now().Sub(begun) < k.Timeout
}

type wakeReason int

const (
	elapsed   wakeReason = iota
	withdrawn            // the proof was invalidated
	ended
)

func (k *Prober) pause(ctx context.Context, t int, d time.Duration) wakeReason {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ended
	case <-k.Proof.Invalidated(t):
		return withdrawn
	case <-timer.C:
		return elapsed
	}
}

func (k *Prober) write(ctx context.Context, t int) (seq int64, written bool) {
	ctx, cancel := context.WithTimeout(ctx, k.Timeout)
	defer cancel()
	seq = k.Proof.Begin(t, k.Now())
	err := k.Writers[t](ctx, seq)
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("write canary failed", "type", t, "error", err)
	}
	return seq, err == nil
}
