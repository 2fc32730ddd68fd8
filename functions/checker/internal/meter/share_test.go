package meter

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// outage is an interval in seconds since the start.
type outage struct{ from, to float64 }

type cluster struct {
	store    *counters
	now      time.Time
	begun    time.Time
	limits   view.Limits
	replicas []*replica
	canaries map[string]store.Canary
	admitted int
	unshared int
}

// replica sends requests as fast as its bucket permits.
type replica struct {
	process

	name      string
	buckets   bucket.Buckets
	mute      []outage // its writes fail
	deaf      []outage // it receives nothing
	idle      []outage // it gets no requests
	delay     time.Duration
	inTransit []delivery
	sent      int64
}

type delivery struct {
	at    time.Time
	batch store.Batch[usage.Counter]
}

const (
	tick   = 100 * time.Millisecond
	flush  = 2 * time.Second
	canary = 15 * time.Second
)

func newSite(n int, l plan.Limits) *cluster {
	s := &cluster{
		store: newCounters(), begun: time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC), canaries: map[string]store.Canary{},
		limits: view.Limits{Bucket: bucket.ShapeOf(l), Quota: l.Quota, Period: l.Period},
	}
	s.now = s.begun
	for i := range n {
		r := &replica{name: fmt.Sprintf("r%d", i), sent: -1}
		r.process = start(s.store, r.name, &s.now, 1)
		r.buckets.Grow(1)
		s.replicas = append(s.replicas, r)
	}
	return s
}

func (s *cluster) in(spans []outage) bool {
	at := s.now.Sub(s.begun).Seconds()
	for _, o := range spans {
		if at >= o.from && at < o.to {
			return true
		}
	}
	return false
}

func (s *cluster) run(t *rapid.T, d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(tick) {
		for i, r := range s.replicas {
			s.sendRequests(r)
			s.write(t, r, i)
			s.deliver(r)
		}
	}
}

func (s *cluster) sendRequests(r *replica) {
	for !s.in(r.idle) && r.buckets.Take(0, s.limits.Bucket, int64(s.now.Sub(s.begun))) {
		switch r.admit(0, s.limits) { //nolint:exhaustive // no quota is hard here
		case Admitted:
			s.admitted++
		case Unshared:
			s.unshared++
		case Exhausted:
		}
	}
}

func (s *cluster) write(t *rapid.T, r *replica, i int) {
	due := s.now.Add(time.Duration(i)*300*time.Millisecond).Sub(s.begun)%flush == 0
	select {
	case <-r.flushNow:
		due = true
	default:
	}
	mute := s.in(r.mute)
	s.store.fault = func() fault {
		if mute {
			return lost
		}
		return none
	}
	if due {
		r.Flush(t.Context())
	}
	if s.now.Sub(s.begun)%canary == 0 && !mute {
		c := s.canaries[r.name]
		s.canaries[r.name] = store.Canary{Replica: r.name, Run: r.name, Seq: c.Seq + 1}
	}
}

func (s *cluster) deliver(r *replica) {
	if s.in(r.deaf) {
		r.inTransit, r.sent = nil, -1 // the listener restarts later
		return
	}
	if r.sent != s.store.written {
		r.sent = s.store.written
		r.inTransit = append(r.inTransit, delivery{s.now.Add(r.delay), s.store.batch()})
	}
	for len(r.inTransit) > 0 && !s.now.Before(r.inTransit[0].at) {
		r.Receive(r.inTransit[0].batch)
		r.inTransit = r.inTransit[1:]
	}
	if s.now.Sub(s.begun)%canary == 0 {
		var all []store.Canary
		for _, c := range s.canaries {
			all = append(all, c)
		}
		begun := s.begun
		if !s.in(r.mute) && len(r.inTransit) == 0 {
			begun = s.now
		}
		r.Proven(begun, all)
	}
}

func TestQuotaHoldsThroughOutages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spans := func(what string, longest float64) []outage {
			var all []outage
			for at := 0.0; len(all) < 3; {
				from := at + rapid.Float64Range(1, 40).Draw(t, what+" after")
				at = from + rapid.Float64Range(0, longest).Draw(t, what+" for")
				all = append(all, outage{from, at})
				at += 5 // enough for the next batch
			}
			return all
		}
		l := plan.Limits{
			Rate: rapid.Float64Range(1, 20).Draw(t, "rate"), Burst: rapid.Int64Range(1, 30).Draw(t, "burst"),
			Quota: rapid.Int64Range(20, 3000).Draw(t, "quota"), Period: plan.Month,
		}
		s := newSite(rapid.IntRange(2, 3).Draw(t, "replicas"), l)
		s.run(t, canary+tick)
		together := spans("all cut", 80)
		for i, r := range s.replicas {
			r.idle = spans(fmt.Sprintf("r%d idle", i), 60)
			switch rapid.SampledFrom([]string{"together", "mute", "deaf", "cut", "well"}).Draw(t, r.name) {
			case "together":
				r.mute, r.deaf = together, together
			case "mute":
				r.mute = spans(r.name+" mute", 80)
			case "deaf":
				r.deaf = spans(r.name+" deaf", 80)
			case "cut":
				r.mute = spans(r.name+" cut", 80)
				r.deaf = r.mute
			}
		}
		s.run(t, 200*time.Second)
		bound := 2 * len(s.replicas) * int(s.limits.Bucket.MaxWithin(5*time.Second))
		if over := s.admitted - int(l.Quota); over > bound {
			t.Fatalf("admitted: got %d of a quota of %d, excess %d, want at most %d", s.admitted, l.Quota, over, bound)
		}
	})
}

func TestQuotaDuringOutage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newSite(2, plan.Limits{Rate: 10, Burst: 1, Quota: 150, Period: plan.Day})
		for _, r := range s.replicas {
			r.mute = []outage{{1, 60}}
			r.deaf = r.mute
		}
		s.run(t, 60*time.Second)
		if s.admitted > 150 || s.unshared == 0 {
			t.Fatalf("without the store: got %d admitted of 150, %d Unshared", s.admitted, s.unshared)
		}
		s.run(t, 60*time.Second)
		if s.admitted < 150 || s.admitted > 170 {
			t.Fatalf("with the store again: got %d admitted, want 150 to 170", s.admitted)
		}
	})
}

func TestJitterDeniesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newSite(2, plan.Limits{Rate: 5, Burst: 5, Quota: rapid.Int64Range(50, 400).Draw(t, "quota"), Period: plan.Day})
		for _, r := range s.replicas {
			r.idle = []outage{{rapid.Float64Range(0, 30).Draw(t, r.name+" idle"), 40}}
			if rapid.Bool().Draw(t, r.name+" slow") {
				r.delay = time.Duration(rapid.IntRange(0, 24).Draw(t, r.name+" way")) * tick
				continue
			}
			from := rapid.Float64Range(0, 60).Draw(t, r.name+" fails")
			r.mute = []outage{{from, from + 1.9}}
		}
		s.run(t, 90*time.Second)
		if s.unshared != 0 || s.admitted < int(s.limits.Quota) {
			t.Fatalf("got %d admitted of %d, %d Unshared, want all and none", s.admitted, s.limits.Quota, s.unshared)
		}
	})
}

func TestForgottenReplicas(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-03-03T12:00:00Z")
	p := start(newCounters(), "p", &now, 1)
	receive := func(seq int64, names ...string) {
		var all []store.Canary
		for _, name := range append(names, "p") {
			all = append(all, store.Canary{Replica: name, Run: name, Seq: seq})
		}
		p.Proven(now, all)
	}
	expect := func(what string, want uint64) {
		t.Helper()
		if got := p.share.others.Load(); got != want {
			t.Errorf("%s: others: got %d, want %d", what, got, want)
		}
	}
	expect("no canary", 1)
	receive(1)
	expect("alone", 1)
	receive(1, "a", "b", "c")
	expect("three others", 3)
	now = now.Add(time.Hour)
	expect("an hour of silence", 3)
	receive(2, "a")
	expect("one continues", 1)
	p.Proven(now, []store.Canary{{Replica: "b", Run: "b", Seq: 1}})
	expect("an old canary is sent again", 1)
	receive(3, "a", "b")
	expect("one returns", 2)
}
