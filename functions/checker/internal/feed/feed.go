// Package feed keeps a listener going: whatever ends it, it starts over, with a
// full batch first.
package feed

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

var errSilent = errors.New("silent for too long")

// Loop runs a listener again and again.
type Loop struct {
	Name   string                          // for the log, e.g. "keys"
	Listen func(ctx context.Context) error // blocks; never returns nil
	Ended  func(err error)                 // told of each end before the next start

	// Silence is for how long the listener has given no sign of life. One that is
	// silent for longer than Patience is ended, so that a connection which died
	// without a word is not waited for.
	Silence  func() time.Duration
	Patience time.Duration

	Now func() time.Time
	Log *slog.Logger
}

// Pauses between an end and the next start: doubled each time, back to the
// first after a listener that lasted.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Run listens until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := l.Now()
		err := l.once(ctx)
		if ctx.Err() != nil {
			return
		}
		l.Ended(err)
		if l.Now().Sub(began) > 2*lastPause {
			pause = firstPause
		}
		l.Log.Warn("listener ended", "listener", l.Name, "error", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // spreads restarts, protects nothing
		}
		pause = min(2*pause, lastPause)
	}
}

// once listens until the listener ends or has been silent for too long.
func (l *Loop) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { l.watch(ctx, cancel) })
	err := l.Listen(ctx)
	cancel(nil)
	watching.Wait()
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// watch cancels a listener that is silent.
func (l *Loop) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(l.Patience / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if l.Silence() > l.Patience {
				cancel(errSilent)
				return
			}
		}
	}
}
