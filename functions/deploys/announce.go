package deploys

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/nudge"
)

const (
	announceLimit   = 100              // announcements in memory at a time
	announceAtOnce  = 8                // on their way to the sink, of different subjects; as many failures in a row mean that it is away
	announceTimeout = 10 * time.Second // for one

	// A sink that is away is left alone for a while, and so is a subject whose event it
	// refuses: longer each time.
	firstRest, longestRest       = time.Second, time.Minute
	firstRefusal, longestRefusal = 5 * time.Second, 5 * time.Minute
	longestAsked                 = time.Hour // that a sink may ask for, by Retry-After

	maxHeld = 10_000 // subjects that are remembered
)

// errNoSink is of an outbox that is filled (EVENTS) and that nobody takes (K_SINK).
var errNoSink = errors.New("K_SINK is not set")

// announcer sends what is in the outbox, in a goroutine of its own, so that a sink that is
// slow or gone holds up nothing. See package event for what is promised.
//
// It goes through the outbox in rounds, from the oldest announcement to the newest, a page at
// a time. A subject whose announcement was not taken is held: none of its later ones is tried
// in this round. So one that the sink refuses holds up its own subject alone, and where the
// sink is away the round goes on from page to page when it may be back.
type announcer struct {
	store Store
	sink  Sink // nil takes nothing
	every time.Duration
	kicks chan struct{}
	sent  *prometheus.CounterVec
	age   prometheus.Gauge
	log   *slog.Logger
	now   func() time.Time

	// Of the round; only run touches them.
	place event.Place
	held  map[string]bool
	rest  backOff // of the sink

	mu      sync.Mutex
	refused map[string]backOff // subjects
}

// backOff is for how long something is left alone.
type backOff struct {
	until time.Time
	pause time.Duration // the last
}

func (b backOff) more(now time.Time, first, longest time.Duration) backOff {
	pause := min(max(2*b.pause, first), longest)
	return backOff{until: now.Add(pause), pause: pause}
}

func newAnnouncer(st Store, sink Sink, every time.Duration, log *slog.Logger) *announcer {
	n := &announcer{
		store: st, sink: sink, every: every, kicks: make(chan struct{}, 1), log: log, now: time.Now,
		held: map[string]bool{}, refused: map[string]backOff{},
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_events_sent_total", Help: "Tries to send an event to the sink, by what came of them.",
		}, []string{"outcome"}),
		age: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_events_oldest_seconds", Help: "How long the oldest event has waited for the sink; 0 when none waits.",
		}),
	}
	for _, o := range outcomes() {
		n.sent.WithLabelValues(string(o))
	}
	return n
}

// outcome is what came of a try.
type outcome string

// The outcomes.
const (
	delivered outcome = "delivered"
	refused   outcome = "refused" // a 4xx: about this event
	failed    outcome = "failed"  // anything else: about the sink
	dropped   outcome = "dropped" // not taken for a day
)

func outcomes() []outcome { return []outcome{delivered, refused, failed, dropped} }

// kick has the outbox looked through soon.
func (n *announcer) kick() {
	select {
	case n.kicks <- struct{}{}:
	default: // it will be
	}
}

// run sends until ctx ends. What other functions write is found by looking.
func (n *announcer) run(ctx context.Context) {
	look := time.NewTicker(n.every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.kicks:
		case <-look.C:
		}
		n.drain(ctx)
	}
}

// drain goes on with the round until it is over, or the sink is away.
func (n *announcer) drain(ctx context.Context) {
	for ctx.Err() == nil && !n.now().Before(n.rest.until) {
		waiting, err := n.store.Announcements(ctx, n.place, announceLimit)
		if err != nil {
			if ctx.Err() == nil {
				n.log.WarnContext(ctx, "read outbox failed", "error", err)
			}
			return
		}
		n.show(waiting)
		err = n.page(ctx, waiting)
		if ctx.Err() != nil {
			return
		}
		over := len(waiting) < announceLimit || len(n.held) > maxHeld
		if over {
			n.place, n.held = event.Place{}, map[string]bool{}
		} else {
			n.place = waiting[len(waiting)-1].Place
		}
		if err != nil {
			n.pause(ctx, err)
		} else if len(waiting) > 0 {
			n.rest = backOff{}
		}
		if over {
			return
		}
	}
}

// show tells how old the oldest announcement is, when a round begins.
func (n *announcer) show(waiting []event.Waiting) {
	switch {
	case n.place != event.Place{}:
	case len(waiting) == 0:
		n.age.Set(0)
	default:
		n.age.Set(waiting[0].Waited.Seconds())
	}
}

// page sends a page, several subjects at once and each in its order. The error says that the
// sink is away.
func (n *announcer) page(ctx context.Context, waiting []event.Waiting) error {
	subjects := map[string][]event.Waiting{}
	var order []string
	for _, w := range waiting {
		if n.held[w.Subject] {
			continue
		}
		if subjects[w.Subject] == nil {
			order = append(order, w.Subject)
		}
		subjects[w.Subject] = append(subjects[w.Subject], w)
	}
	// In another order each time: if the sink is given up, it is not always the same ones
	// that were tried.
	rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] }) //nolint:gosec // an order is no secret
	var away streak
	held := make([]bool, len(order))
	var g errgroup.Group
	g.SetLimit(announceAtOnce)
	for i, subject := range order {
		g.Go(func() error {
			held[i] = !n.subject(ctx, subjects[subject], &away)
			return nil
		})
	}
	_ = g.Wait() // gives none
	for i, subject := range order {
		if held[i] {
			n.held[subject] = true
		}
	}
	return away.error()
}

// streak is how the sink does, of a page: how many failures there were in a row.
type streak struct {
	mu     sync.Mutex
	failed int
	there  bool  // it has taken one, or refused it
	asked  bool  // to be left alone, by Retry-After
	last   error // that made it count as away
}

// answered notes that somebody is there.
func (s *streak) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.there = 0, true
}

func (s *streak) fails(err error) {
	var answer *nudge.AnswerError
	asks := errors.As(err, &answer) && answer.Again != ""
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	if asks || !s.asked {
		s.last, s.asked = err, s.asked || asks
	}
}

// away tells whether it makes no sense to try more now.
func (s *streak) away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked || s.failed >= announceAtOnce
}

// error is why the sink counts as away when the page is through: one that takes some of what
// it is sent does not.
func (s *streak) error() error {
	if s.away() || s.failed > 0 && !s.there {
		return s.last
	}
	return nil
}

// subject sends what waits of one subject, and tells whether all of it is gone.
func (n *announcer) subject(ctx context.Context, waiting []event.Waiting, away *streak) bool {
	for _, w := range waiting {
		o := n.try(ctx, w, away)
		if o == "" || ctx.Err() != nil && o != delivered {
			return false
		}
		if o != delivered && w.Waited >= event.Kept {
			o = dropped
			n.log.ErrorContext(ctx, "event dropped", "id", w.ID, "subject", w.Subject, "type", string(w.Type))
		}
		n.sent.WithLabelValues(string(o)).Inc()
		if o != delivered && o != dropped {
			return false
		}
		if err := n.store.Announced(ctx, w.ID); err != nil {
			n.log.WarnContext(ctx, "delete announcement failed", "id", w.ID, "error", err)
			return false
		}
	}
	return true
}

// try sends one announcement. It gives "" where it is not the time to.
func (n *announcer) try(ctx context.Context, w event.Waiting, away *streak) outcome {
	n.mu.Lock()
	last := n.refused[w.Subject]
	n.mu.Unlock()
	old := w.Waited >= event.Kept
	if !old && (n.now().Before(last.until) || away.away()) {
		return ""
	}
	err := n.send(ctx, w.Announcement)
	var answer *nudge.AnswerError
	of := failed
	if errors.As(err, &answer) && aboutEvent(answer.Status) {
		of = refused
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err == nil:
		away.answered()
		delete(n.refused, w.Subject)
		return delivered
	case of == failed:
		away.fails(err)
		return failed
	}
	away.answered()
	if len(n.refused) > maxHeld {
		clear(n.refused) // they are only tried sooner
	}
	n.refused[w.Subject] = last.more(n.now(), firstRefusal, longestRefusal)
	n.log.WarnContext(ctx, "event refused", "id", w.ID, "subject", w.Subject, "error", err)
	return of
}

// aboutEvent tells whether a status says something about the one event, and not about the
// sink: of which it may be that it takes others.
func aboutEvent(status int) bool {
	return status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

// pause leaves the sink alone for a while: as long as it has asked for, or longer each time.
func (n *announcer) pause(ctx context.Context, err error) {
	n.rest = n.rest.more(n.now(), firstRest, longestRest)
	var answer *nudge.AnswerError
	if errors.As(err, &answer) {
		if asked := n.now().Add(min(retryAfter(answer.Again, n.now()), longestAsked)); asked.After(n.rest.until) {
			n.rest.until = asked
		}
	}
	n.log.WarnContext(ctx, "send events failed", "again_in_ms", n.rest.until.Sub(n.now())/time.Millisecond, "error", err)
}

// retryAfter reads the header of this name: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return at.Sub(now)
}

func (n *announcer) send(ctx context.Context, a event.Announcement) error {
	if n.sink == nil {
		return errNoSink
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	return n.sink.Send(ctx, a)
}
