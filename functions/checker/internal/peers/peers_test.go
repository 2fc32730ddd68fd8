package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/lease"
	"github.com/sluicegate/sluice/functions/checker/internal/meter"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

type nothing struct{}

func (nothing) WriteCounter(context.Context, usage.Counter, store.CounterVersion) (store.CounterVersion, error) {
	return store.CounterVersion{}, nil
}

func (nothing) CounterVersion(context.Context, usage.Day, usage.CounterSource, int) (store.CounterVersion, error) {
	return store.CounterVersion{}, nil
}

type cluster struct {
	now     time.Time
	rnd     *rand.Rand
	limits  view.Limits
	nodes   []*node
	live    []*node
	delay   time.Duration // maximum delay of a message
	lost    float64       // percentage of lost messages
	flights []flight
	bytes   int
	made    int
	step    time.Duration // resolution of the clock
}

type node struct {
	*Exchange

	hall    *cluster
	name    string
	address string
	start   time.Time
	buckets *bucket.Buckets
	meter   *meter.Meter
	phase   time.Duration
	due     time.Time
	stopped bool
}

type flight struct {
	at       time.Time
	from, to *node
	bytes    []byte
	taken    func()
}

const theKey = apikey.Prefix("abcdefgh")

func newHall(n int, l plan.Limits) *cluster {
	shape := bucket.ShapeOf(l)
	h := &cluster{
		now: time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC), rnd: rand.New(rand.NewPCG(1, uint64(n))),
		step:   time.Duration(min(50, max(10, 10/l.Rate))) * time.Millisecond,
		delay:  20 * time.Millisecond,
		limits: view.Limits{Bucket: shape, Quota: l.Quota, Period: l.Period, Unsaid: shape.MaxWithin(5 * time.Second)},
	}
	for range n {
		h.join()
	}
	return h
}

func (h *cluster) join() *node {
	run := "run" + strconv.Itoa(h.made)
	x := &node{hall: h, name: "checker-" + strconv.Itoa(h.made), address: "10.0.0." + strconv.Itoa(1+h.made), start: h.now, buckets: &bucket.Buckets{}, phase: time.Duration(h.rnd.Int64N(int64(Interval)))}
	h.made++
	find := func(p apikey.Prefix) (uint32, bool) { return 0, p == theKey }
	x.meter = meter.New(meter.Config{
		Run: run, Replica: x.name, Interval: time.Second, Writer: nothing{}, MaxUnshared: time.Hour, Horizon: 90 * time.Second,
		Find: find, Now: func() time.Time { return h.now }, Log: slog.New(slog.DiscardHandler),
	})
	x.buckets.Grow(1)
	x.meter.Publish(1, map[apikey.Prefix]uint32{theKey: 0}, func() {})
	x.Exchange = New(Config{
		Replica: x.name, Run: run, Buckets: x.buckets, Meter: x.meter, Leases: lease.New(lease.Config{}), Start: h.now, Gone: 90 * time.Second,
		Find: func(p apikey.Prefix) (uint32, bucket.Params, bool) { return 0, h.limits.Bucket, p == theKey },
	})
	h.nodes, h.live = append(h.nodes, x), append(h.live, x)
	h.canaries()
	return x
}

func (h *cluster) canaries() {
	var all []store.Canary
	for _, n := range h.nodes {
		if !n.stopped {
			all = append(all, store.Canary{Replica: n.name, Run: n.cfg.Run, Address: n.address + ":8443"})
		}
	}
	for _, n := range h.nodes {
		n.Members(h.now, false, nil, all)
	}
}

func (h *cluster) kill(n *node) {
	n.stopped = true
	h.live = slices.DeleteFunc(slices.Clone(h.nodes), func(n *node) bool { return n.stopped })
}

func (h *cluster) pass() {
	h.now = h.now.Add(h.step)
	h.flights = slices.DeleteFunc(h.flights, func(f flight) bool {
		if f.at.After(h.now) {
			return false
		}
		if !f.to.stopped && f.to.Receive(h.now, f.from.address, f.bytes) == nil {
			f.taken()
		}
		return true
	})
	for _, n := range h.live {
		select {
		case <-n.meter.Urgent():
			if n.due.IsZero() {
				n.due = h.now.Add(minInterval)
			}
		default:
		}
		if h.now.Add(-n.phase).UnixNano()%int64(Interval) >= int64(h.step) && (n.due.IsZero() || h.now.Before(n.due)) {
			continue
		}
		n.due = time.Time{}
		n.Tick(h.now)
		for run := range n.Addresses() {
			h.send(n, run)
		}
	}
	if h.now.UnixNano()%int64(15*time.Second) < int64(h.step) {
		h.canaries()
	}
}

func (h *cluster) send(n *node, run string) {
	messages, upTo := n.Messages(run)
	for _, b := range messages {
		h.bytes += len(b)
		if h.rnd.Float64()*100 < h.lost {
			continue
		}
		for _, to := range h.nodes {
			if to.cfg.Run == run {
				h.flights = append(h.flights, flight{
					at: h.now.Add(time.Duration(h.rnd.Int64N(int64(h.delay)))), from: n, to: to, bytes: b,
					taken: func() { n.Acknowledged(run, upTo) },
				})
			}
		}
	}
}

func (n *node) request() bool {
	return n.buckets.Take(0, n.hall.limits.Bucket, int64(n.hall.now.Sub(n.start))) &&
		n.meter.Admit(0, string(theKey), n.hall.limits, n.hall.now) == meter.Admitted
}

// load sends the share first of the requests to the first replica.
func (h *cluster) load(d time.Duration, rate, first float64) (allowed int) {
	due := 0.0
	for end := h.now.Add(d); h.now.Before(end); {
		h.pass()
		live := h.live
		for due += rate * h.step.Seconds() * 2 * h.rnd.Float64(); due >= 1; due-- {
			n := live[0]
			if len(live) > 1 && h.rnd.Float64() >= first {
				n = live[1+h.rnd.IntN(len(live)-1)]
			}
			if n.request() {
				allowed++
			}
		}
	}
	return allowed
}

// TestPlansRate covers 0.1 to 1,000 requests per second.
func TestPlansRate(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 8} {
		for _, rate := range []float64{0.1, 1, 10, 100, 1000} {
			for split, first := range map[string]float64{"even": 1 / float64(n), "99:1": 0.99} {
				t.Run(fmt.Sprintf("%d replicas, %v a second, %s", n, rate, split), func(t *testing.T) {
					t.Parallel()
					burst := max(5, rate)
					h := newHall(n, plan.Limits{Rate: rate, Burst: int64(burst)})
					h.lost = 2
					enough := time.Duration(40 / rate * float64(time.Second))
					of := func(what string, window time.Duration, beyond float64) {
						t.Helper()
						nominal := rate * window.Seconds()
						got := float64(h.load(window, 3*rate, first))
						t.Logf("%s: %.3f of nominal", what, got/nominal)
						if got < 0.95*nominal-1 || got > 1.05*nominal+beyond {
							t.Errorf("%s: got %v allowed in %v", what, got, window)
						}
					}
					long, brief := max(time.Minute, enough), max(15*time.Second, enough)
					of("with the first burst", long, burst)
					of("sustained", long, 0)
					h.kill(h.nodes[n-1])
					h.load(2*time.Second, 3*rate, first)
					of("one killed", brief, burst)
					h.join()
					h.load(2*time.Second, 3*rate, first)
					of("one joined", brief, 0)
				})
			}
		}
	}
}

func TestIdleKeysAreNotSent(t *testing.T) {
	t.Parallel()
	h := newHall(3, plan.Limits{Rate: 100, Burst: 100})
	h.load(10*time.Second, 5, 1.0/3)
	idle := h.bytes
	if keys := h.nodes[0].Status().Keys; keys != 0 {
		t.Errorf("busy keys: got %d, want 0", keys)
	}
	h.bytes = 0
	const seconds = 20
	h.load(seconds*time.Second, 300, 1.0/3)
	const ways = 3 * 2
	t.Logf("bytes per second from one replica to another: %d without a busy key, %d with one", idle/10/ways, h.bytes/seconds/ways)
}

func TestDeadPeer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*cluster, *node){
		"killed": (*cluster).kill,
		"departed": func(h *cluster, n *node) {
			h.kill(n)
			h.nodes[0].Members(h.now, false, []string{n.name}, nil)
		},
		"restarted": func(h *cluster, n *node) {
			h.kill(n)
			h.nodes[0].Members(h.now, false, nil, []store.Canary{{Replica: n.name, Run: "another", Address: n.address + ":8443"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHall(2, plan.Limits{Rate: 0.1, Burst: 10})
			h.load(time.Second, 0, 1) // they receive each other's messages
			for range 10 {
				if !h.nodes[1].request() {
					t.Fatal("a token of the burst is missing")
				}
			}
			h.load(300*time.Millisecond, 0, 1)
			if h.nodes[0].request() {
				t.Error("the burst was allowed twice")
			}
			end(h, h.nodes[1])
			h.load(2*time.Second, 0, 1)
			for i := range 10 {
				if !h.nodes[0].request() {
					t.Fatalf("request %d is denied because of a dead peer", i)
				}
			}
			if h.nodes[0].request() {
				t.Error("more than the burst was refunded")
			}
		})
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	h := newHall(2, plan.Limits{Rate: 10, Burst: 10})
	h.load(20*time.Second, 30, 0.5)
	h.lost = 100
	h.load(2*time.Second, 30, 0.5)
	if got := h.load(time.Minute, 60, 0.5); got < 1150 || got > 1250 {
		t.Errorf("allowed in a minute without messages: got %d, want about 1200", got)
	}
	if got := h.nodes[0].Status().Unreachable; got != 1 {
		t.Errorf("unreachable peers: got %d, want 1", got)
	}
	h.lost = 0
	h.load(2*time.Second, 30, 0.5)
	if got := h.load(time.Minute, 30, 0.5); got < 570 || got > 630 {
		t.Errorf("allowed in a minute with messages again: got %d, want about 600", got)
	}
}

func TestResumedPeer(t *testing.T) {
	t.Parallel()
	h := newHall(2, plan.Limits{Rate: 1, Burst: 100})
	h.load(time.Second, 0, 1)
	for range 100 {
		h.nodes[1].request()
	}
	h.kill(h.nodes[1]) // before its message
	h.load(5*time.Second, 0, 1)
	for range 90 {
		h.nodes[0].request()
	}
	h.nodes[1].stopped = false
	h.live = h.nodes
	h.load(3*time.Second, 0, 1)
	if !h.nodes[0].request() {
		t.Error("a request is denied because of a silent peer")
	}
}

func TestQuotaBetweenReplicas(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 8} {
		h := newHall(n, plan.Limits{Rate: 100_000, Burst: 100_000, Quota: 1000, Period: plan.Month})
		h.step, h.delay = time.Millisecond, 2*time.Millisecond // on one machine or in one zone
		h.load(time.Second, 0, 1)
		const perSecond = 600
		got := h.load(5*time.Second, perSecond, 1/float64(n))
		t.Logf("%d replicas: %d allowed of a quota of 1000 at %d requests per second", n, got, perSecond)
		if got < 1000 || got > 1010 {
			t.Errorf("%d replicas: got %d allowed, want 1000 to 1010", n, got)
		}
		if h.load(time.Second, perSecond, 0.5) > 0 {
			t.Errorf("%d replicas: a request is allowed beyond the quota", n)
		}
	}
}

func TestRejectedMessages(t *testing.T) {
	t.Parallel()
	h := newHall(2, plan.Limits{Rate: 1, Burst: 10})
	h.load(time.Second, 0, 1)
	a, b := h.nodes[0], h.nodes[1]
	good := message{run: b.cfg.Run, seq: 1000, source: b.source.Source(), day: b.source.Day(), counts: []keyCount{{prefix: theKey, allowed: 5, unrefilled: 5}}}
	changed := func(change func(*message)) []byte {
		m := good
		m.counts = slices.Clone(good.counts)
		change(&m)
		return m.encode()
	}
	for name, c := range map[string]struct {
		from  string
		bytes []byte
	}{
		"empty":                        {b.address, nil},
		"another version":              {b.address, append([]byte{version + 1}, good.encode()[1:]...)},
		"cut off":                      {b.address, good.encode()[:len(good.encode())-1]},
		"trailing byte":                {b.address, append(good.encode(), 'x')},
		"another address":              {"203.0.113.9", good.encode()},
		"no address":                   {"", good.encode()},
		"unknown run":                  {b.address, changed(func(m *message) { m.run, m.source = "nobody", "nobody-1" })},
		"own run":                      {a.address, changed(func(m *message) { m.run, m.source = a.cfg.Run, a.source.Source() })},
		"source of another replica":    {b.address, changed(func(m *message) { m.source = a.source.Source() })},
		"old":                          {b.address, changed(func(m *message) { m.seq = 1 })},
		"unknown shard":                {b.address, changed(func(m *message) { m.counts[0].shard = usage.Shards })},
		"a total too large":            {b.address, changed(func(m *message) { m.counts[0].allowed = maxCount + 1 })},
		"more unrefilled than allowed": {b.address, changed(func(m *message) { m.counts[0].unrefilled = 6 })},
		"too many keys":                {b.address, changed(func(m *message) { m.counts = slices.Repeat(m.counts, maxCounts+1) })},
	} {
		if err := a.Receive(h.now, c.from, c.bytes); err == nil {
			t.Errorf("%s: the message is accepted", name)
		}
	}
	if a.buckets.Deficit(0, int64(h.now.Sub(a.start))) != 0 {
		t.Error("an invalid message was charged")
	}
	if err := a.Receive(h.now, b.address, good.encode()); err != nil {
		t.Error(err)
	}
	if got := a.buckets.Deficit(0, int64(h.now.Sub(a.start))); got != int64(5*time.Second) {
		t.Errorf("charge of five requests: got %s, want 5s", time.Duration(got))
	}
	if err := a.Receive(h.now, b.address, good.encode()); !errors.Is(err, ErrStale) {
		t.Errorf("repeated message: got %v, want ErrStale", err)
	}
	// A false count charges no more than a bucket allows.
	if err := a.Receive(h.now, b.address, changed(func(m *message) { m.seq, m.counts[0].allowed = 2000, maxCount })); err != nil {
		t.Error(err)
	}
	if got := a.buckets.Deficit(0, int64(h.now.Sub(a.start))); got > int64(21*time.Second) {
		t.Errorf("charge of a false count: got %s, want at most 21s", time.Duration(got))
	}
}

func BenchmarkTick(b *testing.B) {
	const keys = 10_000
	h := newHall(8, plan.Limits{Rate: 1000, Burst: 1000})
	n := h.nodes[0]
	n.buckets.Grow(keys)
	find := func(p apikey.Prefix) (slot uint32, ok bool) {
		i, err := strconv.Atoi(string(p))
		return uint32(i), err == nil
	}
	n.meter.Publish(keys, nil, func() {})
	n.cfg.Find = func(p apikey.Prefix) (uint32, bucket.Params, bool) {
		slot, ok := find(p)
		return slot, h.limits.Bucket, ok
	}
	size := 0
	for b.Loop() {
		b.StopTimer()
		h.now = h.now.Add(Interval)
		at := int64(h.now.Sub(n.start))
		for slot := range uint32(keys) {
			n.buckets.Take(slot, h.limits.Bucket, at)
			n.buckets.Take(slot, h.limits.Bucket, at) // the second one makes the key busy
			n.meter.Admit(slot, fmt.Sprintf("%08d", slot), h.limits, h.now)
		}
		b.StartTimer()
		n.Tick(h.now)
		messages, upTo := n.Messages("run1")
		n.Acknowledged("run1", upTo)
		size = 0
		for _, m := range messages {
			size += len(m)
		}
	}
	b.ReportMetric(float64(size)/keys, "B/key")
	b.ReportMetric(float64(n.Status().Keys), "keys")
}

func FuzzReceive(f *testing.F) {
	h := newHall(2, plan.Limits{Rate: 1, Burst: 10})
	b := h.nodes[1]
	f.Add(message{run: b.cfg.Run, seq: 1, source: b.source.Source(), day: b.source.Day(), counts: []keyCount{{prefix: theKey, allowed: 5, unrefilled: 5}}}.encode())
	f.Fuzz(func(t *testing.T, bytes []byte) {
		m, err := decode(bytes)
		if err != nil {
			return
		}
		again, err := decode(m.encode())
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v is decoded as %+v, %v", m, again, err)
		}
	})
}
