package canary

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Writer writes canary seq of one data type to the store.
type Writer func(ctx context.Context, seq int64) error

// Keeper writes canaries of every type, over and over.
type Keeper struct {
	Proof    *Proof
	Writers  [Types]Writer
	Interval time.Duration // from one canary to the next

	// Coming tells whether type t's listener is being sent all that there is: what has
	// been written comes with it. nil says that it never is.
	Coming func(t int) bool

	Timeout time.Duration // for one write, and for one to come with everything that is sent
	Now     func() time.Time
	Log     *slog.Logger
}

// Run writes until ctx ends. A write that fails or hangs is followed by the
// next one in its turn: it is the echo that counts, so an unclear outcome is
// as good as a failed one.
func (k *Keeper) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for t := range k.Writers {
		wg.Go(func() { k.keep(ctx, t) })
	}
	wg.Wait()
}

// impatience is how soon a canary that has not come back is followed by another:
// at the start and after an outage, a proof is not waited for longer than needed.
// It doubles from one to the next, and while everything is being sent there is none
// other: a store that sends everything anew for each change (the emulator) would
// otherwise never get to the end of it.
const impatience = time.Second

func (k *Keeper) keep(ctx context.Context, t int) {
	first := min(k.Interval, impatience)
	for wait := first; ; {
		begun := k.Now()
		seq, written := k.write(ctx, t)
		why := k.pause(ctx, t, wait)
		for written && why == elapsed && k.coming(t, begun) && !k.Proof.Answered(t, seq) {
			why = k.pause(ctx, t, first)
		}
		switch {
		case why == ended:
			return
		case !k.Proof.Answered(t, seq):
			wait = min(2*wait, k.Interval)
			continue
		}
		wait = first
		if k.pause(ctx, t, k.Interval-k.Now().Sub(begun)) == ended {
			return
		}
	}
}

// coming tells whether everything is being sent, and a canary of begun is still worth
// waiting for.
func (k *Keeper) coming(t int, begun time.Time) bool {
	return k.Coming != nil && k.Coming(t) && k.Now().Sub(begun) < k.Timeout
}

// wakening is why a pause was over.
type wakening int

const (
	elapsed wakening = iota
	doubted          // what was proven is not any more
	ended            // the context has
)

// pause waits for d, or until type t is in doubt or ctx has ended.
func (k *Keeper) pause(ctx context.Context, t int, d time.Duration) wakening {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ended
	case <-k.Proof.Doubted(t):
		return doubted
	case <-timer.C:
		return elapsed
	}
}

// write tells whether the store has said that it has it.
func (k *Keeper) write(ctx context.Context, t int) (seq int64, written bool) {
	ctx, cancel := context.WithTimeout(ctx, k.Timeout)
	defer cancel()
	seq = k.Proof.Begin(t, k.Now())
	err := k.Writers[t](ctx, seq)
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("canary not written", "type", t, "error", err)
	}
	return seq, err == nil
}
