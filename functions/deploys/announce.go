package deploys

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
)

const (
	announceLimit   = 100              // announcements read at a time
	announceTimeout = 10 * time.Second // for one
	announceFor     = 24 * time.Hour   // until one that is never taken is given up
)

// announcer sends what is in the outbox, in a goroutine of its own, so that a sink
// that is slow or gone holds up nothing.
type announcer struct {
	store Store
	sink  Sink // nil: nothing is put into the outbox
	kicks chan struct{}
	log   *slog.Logger
	now   func() time.Time
}

func newAnnouncer(st Store, sink Sink, log *slog.Logger) *announcer {
	return &announcer{store: st, sink: sink, kicks: make(chan struct{}, 1), log: log, now: time.Now}
}

// on tells whether there is anyone to tell.
func (n *announcer) on() bool { return n.sink != nil }

// kick has the outbox looked through soon.
func (n *announcer) kick() {
	select {
	case n.kicks <- struct{}{}:
	default: // it will be
	}
}

// run sends until ctx ends.
func (n *announcer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.kicks:
			if n.on() {
				n.drain(ctx)
			}
		}
	}
}

// drain tries everything that waits once, the oldest first. What an app's later
// announcements tell is not told before an earlier one.
func (n *announcer) drain(ctx context.Context) {
	waiting, err := n.store.Announcements(ctx, announceLimit)
	if err != nil {
		if ctx.Err() == nil {
			n.log.WarnContext(ctx, "read outbox failed", "error", err)
		}
		return
	}
	held := map[app.Ref]bool{}
	done := 0
	for _, a := range waiting {
		if held[a.App] {
			continue
		}
		if err := n.send(ctx, a); err != nil {
			if n.now().Sub(a.At) < announceFor {
				held[a.App] = true
				n.log.WarnContext(ctx, "send announcement failed", "app", a.App.String(), "revision", a.Revision.Number, "error", err)
				continue
			}
			n.log.ErrorContext(ctx, "announcement dropped", "app", a.App.String(), "revision", a.Revision.Number, "error", err)
		}
		if err := n.store.Announced(ctx, a.ID); err != nil {
			n.log.WarnContext(ctx, "delete announcement failed", "app", a.App.String(), "error", err)
			return
		}
		done++
	}
	if len(waiting) == announceLimit && done > 0 {
		n.kick()
	}
}

func (n *announcer) send(ctx context.Context, a deploy.Announcement) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	return n.sink.Send(ctx, a)
}
