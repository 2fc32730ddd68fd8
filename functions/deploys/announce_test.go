package deploys

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

type listener struct {
	mu    sync.Mutex
	away  bool
	heard []string
	ids   map[string]int
}

func (l *listener) Send(_ context.Context, n event.OutboxEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return errors.New("away")
	}
	l.heard = append(l.heard, heardAs(n))
	if l.ids == nil {
		l.ids = map[string]int{}
	}
	l.ids[n.ID]++
	return nil
}

func (l *listener) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

func (l *listener) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.heard...)
}

func (w *world) background() {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	service, ended := w.service, make(chan struct{})
	go func() {
		defer close(ended)
		_ = service.Background(ctx)
	}()
	w.Cleanup(func() { cancel(); <-ended })
}

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	sink := &listener{away: true}
	w := newWorld(t, func(c *Config, p *Parts) { p.Sink, c.ProgressDeadline = sink, brokenAfter })
	w.background()
	w.event(app.DeployRequested, w.ref("prod").String())
	w.runsWithin("hello:v1", 1)
	w.deploy("hello:v2")
	w.runsWithin("hello:v2", 2)
	w.deploy("hello:broken")
	w.becomes(3, func(r deploy.Revision) bool { return r.Status == deploy.Failed })
	made(w.post("hello/rollback", ""))
	w.runsWithin("hello:v2", 4)
	if got := sink.all(); len(got) != 0 {
		t.Errorf("events: got %v", got)
	}
	sink.set(false)
	want := []string{"deployed 1", "upgraded 2", "failed 3", "rolledback 4"}
	w.eventually("send the events", func() error {
		w.tick()
		var own []string
		for _, h := range sink.all() {
			if h != "deployed 1" || len(own) == 0 { // the tick also deploys staging's app
				own = append(own, h)
			}
		}
		if diff := cmp.Diff(want, own); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
	w.eventually("empty the outbox", func() error {
		waiting, err := w.store.Announcements(t.Context(), event.Cursor{}, 10)
		if err == nil && len(waiting) > 0 {
			err = fmt.Errorf("got %d events, want none", len(waiting))
		}
		return err
	})
}

func heardAs(n event.OutboxEntry) string {
	if d := n.Deployment; d != nil {
		return fmt.Sprintf("%s %d", d.Outcome, d.Revision.Number)
	}
	return string(n.Type)
}

type box struct {
	Store

	mu      sync.Mutex
	waiting []event.Pending
	deaf    bool
	most    int // largest page
	reads   int
}

func (b *box) Announcements(_ context.Context, after event.Cursor, limit int) ([]event.Pending, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	var page []event.Pending
	for _, w := range b.waiting {
		if c := w.Place.At.Compare(after.At); (c > 0 || c == 0 && w.Place.ID > after.ID) && len(page) < limit {
			page = append(page, w)
		}
	}
	b.most = max(b.most, len(page))
	return page, nil
}

func (b *box) Announced(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deaf {
		return errors.New("not now")
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(w event.Pending) bool { return w.ID == id })
	return nil
}

func (b *box) left() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, w := range b.waiting {
		ids = append(ids, w.ID)
	}
	return ids
}

func note(subject string, th int, waited time.Duration) event.Pending {
	id := fmt.Sprintf("%s-%04d", subject, th)
	return event.Pending{
		OutboxEntry: event.OutboxEntry{ID: id, Type: event.KeyRotated, Subject: subject},
		Place:       event.Cursor{At: time.Date(2026, 3, 14, 12, 0, th, 0, time.UTC), ID: id}, Waited: waited,
	}
}

type sinkFunc func(n event.OutboxEntry) error

func (f sinkFunc) Send(_ context.Context, n event.OutboxEntry) error { return f(n) }

func answering(status int, again string) error {
	return fmt.Errorf("send: %w", &notify.StatusError{Status: status, Again: again})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	t.Run("sent again after a crash", func(t *testing.T) {
		t.Parallel()
		b, sink := &box{waiting: []event.Pending{note("a", 1, 0)}, deaf: true}, &listener{}
		n := newOutboxSender(b, sink, time.Second, functest.Quiet())
		n.drain(t.Context())
		b.deaf = false
		n.drain(t.Context())
		n.drain(t.Context())
		check.Equal(t, "sent", map[string]int{"a-0001": 2}, sink.ids)
	})
	t.Run("given up after a day", func(t *testing.T) {
		t.Parallel()
		b := &box{waiting: []event.Pending{note("a", 1, event.Retention), note("b", 2, event.Retention-1)}}
		n := newOutboxSender(b, &listener{away: true}, time.Second, functest.Quiet())
		n.drain(t.Context())
		check.Equal(t, "left", []string{"b-0002"}, b.left())
	})
	t.Run("without a sink, entries are dropped after a day", func(t *testing.T) {
		t.Parallel()
		b := &box{waiting: []event.Pending{note("a", 1, event.Retention), note("b", 2, 0)}}
		newOutboxSender(b, nil, time.Second, functest.Quiet()).drain(t.Context())
		check.Equal(t, "left", []string{"b-0002"}, b.left())
	})
	t.Run("a rejected entry holds only its subject", func(t *testing.T) {
		t.Parallel()
		b := &box{}
		for i := range 250 { // more than two pages
			b.waiting = append(b.waiting, note("bad", 2*i, 0))
			if i > 200 {
				b.waiting = append(b.waiting, note("good", 2*i+1, 0))
			}
		}
		tried := map[string]int{}
		var mu sync.Mutex
		n := newOutboxSender(b, sinkFunc(func(n event.OutboxEntry) error {
			mu.Lock()
			defer mu.Unlock()
			if tried[n.Subject]++; n.Subject == "bad" {
				return answering(http.StatusBadRequest, "")
			}
			return nil
		}), time.Second, functest.Quiet())
		n.drain(t.Context())
		n.drain(t.Context())
		check.Equal(t, "tried", map[string]int{"bad": 1, "good": 49}, tried)
		if left := b.left(); len(left) != 250 {
			t.Errorf("entries left: got %d", len(left))
		}
		if b.most > announceLimit {
			t.Errorf("largest page: got %d", b.most)
		}
	})
}

func TestUnavailableSinkDelaysDelivery(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		err      error
		least    time.Duration
		mostSent int
	}{
		{"gone", errors.New("connection refused"), firstRest, 2 * announceAtOnce},
		{"an internal error", answering(http.StatusInternalServerError, ""), firstRest, 2 * announceAtOnce},
		{"redirecting", answering(http.StatusFound, ""), firstRest, 2 * announceAtOnce},
		{"busy", answering(http.StatusTooManyRequests, "120"), 2 * time.Minute, 2 * announceAtOnce},
		{"busy until", answering(http.StatusServiceUnavailable, "Sat, 14 Mar 2026 12:05:00 GMT"), 5 * time.Minute, 2 * announceAtOnce},
		{"busy for a year", answering(http.StatusServiceUnavailable, "31536000"), longestAsked, 2 * announceAtOnce},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &box{}
			for i := range 90 {
				b.waiting = append(b.waiting, note(fmt.Sprint("key", i), i, 0))
			}
			var sent atomic.Int32
			n := newOutboxSender(b, sinkFunc(func(event.OutboxEntry) error { sent.Add(1); return tt.err }), time.Second, functest.Quiet())
			now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
			n.now = func() time.Time { return now }
			n.drain(t.Context())
			first := int(sent.Load())
			if first == 0 || first > tt.mostSent {
				t.Errorf("unexpected number of attempts: %d", first)
			}
			now = now.Add(tt.least - time.Millisecond)
			n.drain(t.Context())
			if got := int(sent.Load()); got != first {
				t.Errorf("%d more attempts during the pause, want 0", got-first)
			}
			now = now.Add(time.Millisecond)
			n.drain(t.Context())
			if int(sent.Load()) == first {
				t.Error("no attempt after the pause")
			}
			if got := len(b.left()); got != 90 {
				t.Errorf("entries left: got %d", got)
			}
		})
	}
}
