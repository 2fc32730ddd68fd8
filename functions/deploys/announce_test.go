package deploys

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
)

// listener is a sink that takes what it gets, unless it is away.
type listener struct {
	mu    sync.Mutex
	away  bool
	heard []string
	ids   map[string]int
}

func (l *listener) Send(_ context.Context, n deploy.Announcement) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return errors.New("away")
	}
	l.heard = append(l.heard, fmt.Sprintf("%s %d", n.Outcome, n.Revision.Number))
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

// background runs the function's background work until the test ends.
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

// Every end of a deployment is announced, in order. A sink that is away holds up no
// deployment and gets everything later.
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
	if !until(t, func() bool { return w.revision(3).Status == deploy.Failed }) {
		t.Fatalf("%+v", w.revision(3))
	}
	w.post("hello/rollback", "").made()
	w.runsWithin("hello:v2", 4)
	if got := sink.all(); len(got) != 0 {
		t.Errorf("heard %v", got)
	}
	sink.set(false)
	want := []string{"deployed 1", "upgraded 2", "failed 3", "rolledback 4"}
	var diff string
	heard := func() bool {
		w.tick()
		var own []string
		for _, h := range sink.all() {
			if h != "deployed 1" || len(own) == 0 { // staging's app has its first deployment with a tick, too
				own = append(own, h)
			}
		}
		diff = cmp.Diff(want, own)
		return diff == ""
	}
	if !until(t, heard) {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	left := func() bool {
		waiting, err := w.store.Announcements(t.Context(), 10)
		return err == nil && len(waiting) == 0
	}
	if !until(t, left) {
		t.Error("the outbox is not empty")
	}
}

// box is an outbox in memory.
type box struct {
	Store
	waiting []deploy.Announcement
	deaf    bool // forgets nothing
}

func (b *box) Announcements(_ context.Context, limit int) ([]deploy.Announcement, error) {
	return append([]deploy.Announcement(nil), b.waiting[:min(limit, len(b.waiting))]...), nil
}

func (b *box) Announced(_ context.Context, id string) error {
	if b.deaf {
		return errors.New("not now")
	}
	for i, n := range b.waiting {
		if n.ID == id {
			b.waiting = append(b.waiting[:i:i], b.waiting[i+1:]...)
			break
		}
	}
	return nil
}

func TestDrain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	note := func(id string, age time.Duration) deploy.Announcement {
		return deploy.Announcement{ID: id, App: app.Ref{Namespace: "shop-prod", Name: "hello"}, At: now.Add(-age)}
	}
	t.Run("sent again after a crash", func(t *testing.T) {
		t.Parallel()
		b, sink := &box{waiting: []deploy.Announcement{note("a", 0)}, deaf: true}, &listener{}
		n := newAnnouncer(b, sink, quiet())
		n.drain(t.Context())
		b.deaf = false
		n.drain(t.Context())
		n.drain(t.Context())
		if diff := cmp.Diff(map[string]int{"a": 2}, sink.ids); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
	t.Run("given up after a day", func(t *testing.T) {
		t.Parallel()
		b := &box{waiting: []deploy.Announcement{note("old", announceFor), note("new", announceFor-1)}}
		n := newAnnouncer(b, &listener{away: true}, quiet())
		n.now = func() time.Time { return now }
		n.drain(t.Context())
		if len(b.waiting) != 1 || b.waiting[0].ID != "new" {
			t.Errorf("%v are left", b.waiting)
		}
	})
}
