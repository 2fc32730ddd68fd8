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
	"github.com/sluicegate/sluice/shared/notify"
)

const (
	announceLimit   = 100              // entries in memory
	announceAtOnce  = 8                // concurrent sends; after as many consecutive failures, the sink counts as down
	announceTimeout = 10 * time.Second // per entry

	// Pauses for a failing sink, and for a subject whose event it rejects. They double.
	firstRest, longestRest       = time.Second, time.Minute
	firstRefusal, longestRefusal = 5 * time.Second, 5 * time.Minute
	longestAsked                 = time.Hour // upper limit for Retry-After

	maxHeld = 10_000 // subjects in memory
)

var errNoSink = errors.New("K_SINK is not set")

// outboxSender sends the outbox; package event describes the guarantees. It works in rounds, from
// the oldest entry to the newest, one page at a time. If an entry fails, the later entries of its
// subject wait for the next round. A rejected entry therefore delays only its subject.
type outboxSender struct {
	store   Store
	sink    Sink // if nil, every send fails
	every   time.Duration
	wakeups chan struct{}
	sent    *prometheus.CounterVec
	age     prometheus.Gauge
	log     *slog.Logger
	now     func() time.Time

	// State of the current round; only run uses it.
	place event.Cursor
	held  map[string]bool
	rest  backOff // pause for the sink

	mu      sync.Mutex
	refused map[string]backOff // by subject
}

type backOff struct {
	until time.Time
	pause time.Duration
}

func (b backOff) more(now time.Time, first, longest time.Duration) backOff {
	pause := min(max(2*b.pause, first), longest)
	return backOff{until: now.Add(pause), pause: pause}
}

func newOutboxSender(st Store, sink Sink, every time.Duration, log *slog.Logger) *outboxSender {
	n := &outboxSender{
		store: st, sink: sink, every: every, wakeups: make(chan struct{}, 1), log: log, now: time.Now,
		held: map[string]bool{}, refused: map[string]backOff{},
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_events_sent_total", Help: "Attempts to send an event to the sink by outcome.",
		}, []string{"outcome"}),
		age: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_events_oldest_seconds", Help: "Age of the oldest unsent event in seconds; 0 if there is none.",
		}),
	}
	for _, o := range outcomes() {
		n.sent.WithLabelValues(string(o))
	}
	return n
}

type outcome string

const (
	delivered outcome = "delivered"
	refused   outcome = "refused" // 4xx: the fault of this event
	failed    outcome = "failed"  // any other error: the fault of the sink
	dropped   outcome = "dropped" // not accepted within a day
)

func outcomes() []outcome { return []outcome{delivered, refused, failed, dropped} }

func (n *outboxSender) wake() {
	select {
	case n.wakeups <- struct{}{}:
	default:
	}
}

// run sends entries until ctx ends. It polls, because other functions also add entries.
func (n *outboxSender) run(ctx context.Context) {
	look := time.NewTicker(n.every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wakeups:
		case <-look.C:
		}
		n.drain(ctx)
	}
}

// drain continues the round until its end, or until the sink is down.
func (n *outboxSender) drain(ctx context.Context) {
	for ctx.Err() == nil && !n.now().Before(n.rest.until) {
		waiting, err := n.store.Announcements(ctx, n.place, announceLimit)
		if err != nil {
			if ctx.Err() == nil {
				n.log.WarnContext(ctx, "read outbox failed", "error", err)
			}
			return
		}
		n.updateAge(waiting)
		err = n.page(ctx, waiting)
		if ctx.Err() != nil {
			return
		}
		over := len(waiting) < announceLimit || len(n.held) > maxHeld
		if over {
			n.place, n.held = event.Cursor{}, map[string]bool{}
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

func (n *outboxSender) updateAge(waiting []event.Pending) {
	switch {
	case n.place != event.Cursor{}:
	case len(waiting) == 0:
		n.age.Set(0)
	default:
		n.age.Set(waiting[0].Waited.Seconds())
	}
}

// page sends the entries of a page: those of one subject in order, subjects concurrently. It
// returns an error if the sink is down.
func (n *outboxSender) page(ctx context.Context, waiting []event.Pending) error {
	subjects := map[string][]event.Pending{}
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
	// Shuffle, so that a failing sink does not always get the same subjects.
	rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] }) //nolint:gosec // not security-relevant
	var away failureRun
	held := make([]bool, len(order))
	var g errgroup.Group
	g.SetLimit(announceAtOnce)
	for i, subject := range order {
		g.Go(func() error {
			held[i] = !n.subject(ctx, subjects[subject], &away)
			return nil
		})
	}
	_ = g.Wait()
	for i, subject := range order {
		if held[i] {
			n.held[subject] = true
		}
	}
	return away.error()
}

type failureRun struct {
	mu     sync.Mutex
	failed int
	there  bool // the sink accepted or rejected an entry
	asked  bool // the sink sent Retry-After
	last   error
}

func (s *failureRun) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.there = 0, true
}

func (s *failureRun) fails(err error) {
	var answer *notify.StatusError
	asks := errors.As(err, &answer) && answer.Again != ""
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	if asks || !s.asked {
		s.last, s.asked = err, s.asked || asks
	}
}

func (s *failureRun) away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked || s.failed >= announceAtOnce
}

// error returns the last error if the sink is down, or if it failed without accepting or rejecting
// any entry.
func (s *failureRun) error() error {
	if s.away() || s.failed > 0 && !s.there {
		return s.last
	}
	return nil
}

// subject sends the entries of one subject. It reports whether all were sent or dropped.
func (n *outboxSender) subject(ctx context.Context, waiting []event.Pending, away *failureRun) bool {
	for _, w := range waiting {
		o := n.try(ctx, w, away)
		if o == "" || ctx.Err() != nil && o != delivered {
			return false
		}
		if o != delivered && w.Waited >= event.Retention {
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

// try returns "" if the subject or the sink is paused.
func (n *outboxSender) try(ctx context.Context, w event.Pending, away *failureRun) outcome {
	n.mu.Lock()
	last := n.refused[w.Subject]
	n.mu.Unlock()
	old := w.Waited >= event.Retention
	if !old && (n.now().Before(last.until) || away.away()) {
		return ""
	}
	err := n.send(ctx, w.OutboxEntry)
	var answer *notify.StatusError
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
		clear(n.refused) // only shortens their pauses
	}
	n.refused[w.Subject] = last.more(n.now(), firstRefusal, longestRefusal)
	n.log.WarnContext(ctx, "event refused", "id", w.ID, "subject", w.Subject, "error", err)
	return of
}

func aboutEvent(status int) bool {
	return status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

func (n *outboxSender) pause(ctx context.Context, err error) {
	n.rest = n.rest.more(n.now(), firstRest, longestRest)
	var answer *notify.StatusError
	if errors.As(err, &answer) {
		if asked := n.now().Add(min(retryAfter(answer.Again, n.now()), longestAsked)); asked.After(n.rest.until) {
			n.rest.until = asked
		}
	}
	n.log.WarnContext(ctx, "send events failed", "again_in_ms", n.rest.until.Sub(n.now())/time.Millisecond, "error", err)
}

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

func (n *outboxSender) send(ctx context.Context, a event.OutboxEntry) error {
	if n.sink == nil {
		return errNoSink
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	return n.sink.Send(ctx, a)
}
