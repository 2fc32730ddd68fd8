package meter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
)

var errFault = errors.New("injected")

type counters struct {
	mu       sync.Mutex
	docs     map[string]usage.Counter
	versions map[string]store.CounterVersion
	written  int64
	fault    func() fault
}

type fault int

const (
	none fault = iota
	lost       // no effect, and the call fails
	ambiguous
)

func newCounters() *counters {
	return &counters{docs: map[string]usage.Counter{}, versions: map[string]store.CounterVersion{}, fault: func() fault { return none }}
}

func id(day usage.Day, source usage.CounterSource, shard int) string {
	return fmt.Sprintf("%s.%s.%d", day, source, shard)
}

func (c *counters) WriteCounter(_ context.Context, w usage.Counter, base store.CounterVersion) (store.CounterVersion, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fault()
	if f == lost {
		return store.CounterVersion{}, errFault
	}
	key := id(w.Day, w.Source, w.Shard)
	if c.versions[key] != base {
		return store.CounterVersion{}, errors.New("conflict")
	}
	c.written++
	c.docs[key], c.versions[key] = w, store.VersionAt(time.Unix(c.written, 0))
	if f == ambiguous {
		return store.CounterVersion{}, errFault
	}
	return c.versions[key], nil
}

func (c *counters) CounterVersion(_ context.Context, day usage.Day, source usage.CounterSource, shard int) (store.CounterVersion, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault() != none {
		return store.CounterVersion{}, errFault
	}
	return c.versions[id(day, source, shard)], nil
}

func (c *counters) totals(day usage.Day, prefix apikey.Prefix) usage.Totals {
	var sum usage.Totals
	for _, d := range c.docs {
		for n := range d.Counts.All() {
			if d.Day == day && n.Prefix == prefix {
				sum = sum.Plus(n.Totals)
			}
		}
	}
	return sum
}

func (c *counters) batch() store.Batch[usage.Counter] {
	b := store.Batch[usage.Counter]{Reset: true, At: time.Unix(c.written, 0)}
	for id, d := range c.docs {
		b.Changes = append(b.Changes, store.DocChange[usage.Counter]{ID: id, Value: d})
	}
	return b
}

func prefixAt(slot uint32) apikey.Prefix { return apikey.Prefix(fmt.Sprintf("%08d", slot)) }

// The prefix of a key is its slot's number.
type process struct {
	*Meter
	now *time.Time
}

func start(c *counters, run string, now *time.Time, n uint32) process {
	p := process{now: now}
	p.Meter = New(Config{
		Run: run, Replica: run, Interval: time.Second, Writer: c, Log: slog.New(slog.DiscardHandler),
		MaxUnshared: 5 * time.Second, Horizon: 90 * time.Second,
		Now: func() time.Time { return *now },
		Find: func(prefix apikey.Prefix) (slot uint32, ok bool) {
			_, err := fmt.Sscanf(string(prefix), "%d", &slot)
			return slot, err == nil
		},
	})
	p.Publish(n, nil, func() {})
	return p
}

func (p process) admit(slot uint32, l view.Limits) Admission {
	return p.Admit(slot, string(prefixAt(slot)), l, *p.now)
}

func (p process) request(slot uint32, l view.Limits) bool { return p.admit(slot, l) == Admitted }

var anyRate = bucket.ShapeOf(plan.Limits{Rate: 100, Burst: 100})

// TestTotalsEqualTheTruth tests that stored counts lack at most the unflushed counts of killed
// processes.
func TestTotalsEqualTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const keys = 3
		type bill map[usage.Day][keys]usage.Totals
		c, now := newCounters(), time.Date(2024, 2, 27, 22, 0, 0, 0, time.UTC)
		truth, lostAtMost := bill{}, bill{}
		runs := 0
		launch := func() process { runs++; return start(c, fmt.Sprintf("run%d", runs), &now, keys) }
		procs := []process{launch(), launch()}
		pending := []bill{{}, {}} // since the process's last complete flush
		faulty := false
		c.fault = func() fault {
			if !faulty {
				return none
			}
			return rapid.SampledFrom([]fault{none, lost, ambiguous}).Draw(t, "fault")
		}
		note := func(b bill, slot uint32, add usage.Totals) {
			row := b[usage.DayOf(now)]
			row[slot] = row[slot].Plus(add)
			b[usage.DayOf(now)] = row
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "process")
			switch rapid.SampledFrom([]string{"request", "request", "request", "flush", "pass", "stop", "kill", "receive", "faults"}).Draw(t, "step") {
			case "request":
				slot := rapid.Uint32Range(0, keys-1).Draw(t, "key")
				var add usage.Totals
				if rapid.IntRange(0, 3).Draw(t, "rate denied") == 0 {
					procs[i].RateDenied(slot, string(prefixAt(slot)), now)
					add = usage.Totals{RateDenied: 1}
				} else {
					add = map[Admission]usage.Totals{
						Admitted: {Allowed: 1}, Exhausted: {QuotaDenied: 1}, Unshared: {},
					}[procs[i].admit(slot, view.Limits{Bucket: anyRate, Quota: 5, Period: plan.Day})]
				}
				note(truth, slot, add)
				note(pending[i], slot, add)
			case "flush":
				if procs[i].Flush(t.Context()) {
					pending[i] = bill{}
				}
			case "pass":
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Hour)).Draw(t, "time")))
				for _, p := range procs { // like Run, well before the next request
					p.advance(now)
				}
			case "receive":
				procs[i].Receive(c.batch())
			case "stop":
				faulty = false
				for !procs[i].Flush(t.Context()) {
				}
				procs[i], pending[i] = launch(), bill{}
			case "kill":
				for day, row := range pending[i] {
					for slot, lost := range row {
						was := lostAtMost[day]
						was[slot] = was[slot].Plus(lost)
						lostAtMost[day] = was
					}
				}
				procs[i], pending[i] = launch(), bill{}
			case "faults":
				faulty = !faulty
			}
		}
		faulty = false
		for _, p := range procs {
			for !p.Flush(t.Context()) {
			}
		}
		for day, row := range truth {
			for slot, want := range row {
				got, may := c.totals(day, prefixAt(uint32(slot))), lostAtMost[day][slot]
				short := usage.Totals{Allowed: want.Allowed - got.Allowed, RateDenied: want.RateDenied - got.RateDenied, QuotaDenied: want.QuotaDenied - got.QuotaDenied}
				if short.Allowed > may.Allowed || short.RateDenied > may.RateDenied || short.QuotaDenied > may.QuotaDenied {
					t.Fatalf("%s key %d: stored: got %v, want %v less at most %v", day, slot, got, want, may)
				}
			}
		}
	})
}

func TestQuota(t *testing.T) {
	t.Parallel()
	periods := []struct {
		name   string
		period plan.Period
		at     string
		end    string
	}{
		{"day", plan.Day, "2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z"},
		{"week from Monday", plan.Week, "2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z"},
		{"week on a Tuesday", plan.Week, "2026-03-03T12:00:00Z", "2026-03-09T00:00:00Z"},
		{"month of 28 days", plan.Month, "2026-02-10T12:00:00Z", "2026-03-01T00:00:00Z"},
		{"month of 29 days", plan.Month, "2028-02-10T12:00:00Z", "2028-03-01T00:00:00Z"},
		{"month of 30 days", plan.Month, "2026-04-30T23:59:59Z", "2026-05-01T00:00:00Z"},
		{"month of 31 days", plan.Month, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"year's end, month", plan.Month, "2026-12-31T23:00:00Z", "2027-01-01T00:00:00Z"},
		{"year's end, week", plan.Week, "2026-12-31T23:00:00Z", "2027-01-04T00:00:00Z"},
	}
	for _, test := range periods {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			now, end := instant(t, test.at), instant(t, test.end)
			limits := view.Limits{Bucket: anyRate, Quota: 100, Period: test.period}
			c := newCounters()
			a, b := start(c, "a", &now, 1), start(c, "b", &now, 1)
			share := func() {
				for _, p := range []process{a, b} {
					p.advance(now)
					p.Flush(t.Context())
				}
				a.Receive(c.batch())
				b.Receive(c.batch())
			}
			admit := func(n int) (admitted int) {
				for i := range n {
					if []process{a, b}[i%2].request(0, limits) {
						admitted++
					}
				}
				return admitted
			}
			share()
			if n := admit(60); n != 60 {
				t.Fatalf("admitted: got %d, want 60", n)
			}
			share()
			if n := admit(20); n != 20 {
				t.Fatalf("admitted: got %d, want 20", n)
			}
			share()
			b = start(c, "b2", &now, 1)
			share()
			if n := admit(100); n < 20 || n > 40 {
				t.Errorf("admitted of the last 20: got %d, want 20 to 40", n)
			}
			share()
			if n := admit(10); n != 0 {
				t.Errorf("admitted beyond the quota: got %d, want 0", n)
			}
			for now.Before(end.Add(-time.Second)) { // until the last second of the period
				now = minTime(now.Add(13*time.Hour), end.Add(-time.Second))
				share()
				if n := admit(2); n != 0 {
					t.Fatalf("admitted beyond the quota: got %d at %v, want 0", n, now)
				}
			}
			now = end
			if n := admit(2); n != 2 {
				t.Errorf("admitted at the start of the new period: got %d, want 2", n)
			}
			share()
			if n := admit(2); n != 2 {
				t.Errorf("admitted in the new period: got %d, want 2", n)
			}
		})
	}
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	check.OK(t, err)
	return v
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func TestCountsBeforeKey(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-03-03T12:00:00Z")
	c := newCounters()
	other := start(c, "other", &now, 1)
	for range 10 {
		other.request(0, view.Limits{})
	}
	other.Flush(t.Context())
	known := false
	p := start(c, "p", &now, 0)
	p.cfg.Find = func(apikey.Prefix) (uint32, bool) { return 0, known }
	p.Receive(c.batch())
	p.Publish(1, map[apikey.Prefix]uint32{prefixAt(0): 0}, func() { known = true })
	if p.request(0, view.Limits{Bucket: anyRate, Quota: 10, Period: plan.Day}) {
		t.Error("a request beyond the quota was admitted")
	}
	if !p.request(0, view.Limits{Bucket: anyRate, Quota: 11, Period: plan.Week}) {
		t.Error("the last request of the quota was not admitted")
	}
}

func TestCompaction(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-03-03T12:00:00Z")
	c := newCounters()
	for _, run := range []string{"x", "y"} {
		p := start(c, run, &now, 1)
		for range 5 {
			p.request(0, view.Limits{})
		}
		p.Flush(t.Context())
	}
	p := start(c, "p", &now, 1)
	p.Receive(c.batch())
	day := usage.DayOf(now)
	c.docs = map[string]usage.Counter{"all": {Day: day, Source: "compacted", Counts: usage.Packed(nil).Pack(prefixAt(0), usage.Totals{Allowed: 10})}}
	p.Receive(c.batch())
	if p.request(0, view.Limits{Bucket: anyRate, Quota: 10, Period: plan.Month}) || !p.request(0, view.Limits{Bucket: anyRate, Quota: 11, Period: plan.Month}) {
		t.Error("a compaction changed the sum")
	}
}

func TestCountsNothingTwiceAfterADayIsClosed(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-03-03T12:00:00Z")
	c := newCounters()
	p := start(c, "p", &now, 1)
	p.request(0, view.Limits{})
	c.fault = func() fault { return ambiguous }
	p.Flush(t.Context())
	c.fault = func() fault { return none }
	clear(c.docs)
	clear(c.versions)
	now = now.Add(49 * time.Hour)
	p.advance(now)
	if !p.Flush(t.Context()) || len(c.docs) != 0 {
		t.Errorf("documents of a closed day: got %v, want none", c.docs)
	}
}

func TestAdmitAllocatesNothing(t *testing.T) {
	now := instant(t, "2026-03-03T12:00:00Z")
	p := start(newCounters(), "p", &now, 1)
	prefix := string(prefixAt(0))
	for _, l := range []view.Limits{{}, {Quota: 50, Period: plan.Month}} {
		if n := testing.AllocsPerRun(100, func() { p.Admit(0, prefix, l, now) }); n != 0 {
			t.Errorf("allocations: got %v, want 0", n)
		}
	}
}

func TestSlowAndAbsentStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounters()
		var away atomic.Bool
		m := New(Config{
			Run: "p", Interval: 2 * time.Second, Writer: slow{counters: c, away: &away}, Log: slog.New(slog.DiscardHandler),
			Now: time.Now, Find: func(apikey.Prefix) (uint32, bool) { return 0, true },
		})
		m.Publish(1, nil, func() {})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { m.Run(ctx); close(done) }()
		const perSecond, seconds = 100, 150
		for second := range seconds {
			away.Store(second >= 40 && second < 100)
			begin := time.Now()
			for range perSecond {
				m.Admit(0, string(prefixAt(0)), view.Limits{}, time.Now())
			}
			if time.Since(begin) != 0 {
				t.Fatal("a request waited for the store")
			}
			time.Sleep(time.Second)
		}
		stop()
		<-done
		var stored uint64
		for _, d := range c.docs {
			for n := range d.Counts.All() {
				stored += n.Totals.Allowed
			}
		}
		if stored != perSecond*seconds {
			t.Errorf("stored: got %d, want %d", stored, perSecond*seconds)
		}
	})
}

type slow struct {
	*counters
	away *atomic.Bool
}

func (s slow) WriteCounter(ctx context.Context, w usage.Counter, base store.CounterVersion) (store.CounterVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.away.Load() {
		<-ctx.Done()
		return store.CounterVersion{}, ctx.Err()
	}
	time.Sleep(5 * time.Second)
	return s.counters.WriteCounter(ctx, w, base)
}

func TestIdle(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-03-03T12:00:00Z")
	c := newCounters()
	p := start(c, "a", &now, 2)
	turn := func(d time.Duration) {
		now = now.Add(d)
		p.advance(now)
		p.Flush(t.Context())
		p.advance(now)
	}
	p.request(0, view.Limits{Bucket: anyRate})
	if p.Idle(0) || !p.Idle(1) {
		t.Errorf("after a request: idle: got %v, other slot %v, want false and true", p.Idle(0), p.Idle(1))
	}
	if turn(12 * time.Hour); p.Idle(0) {
		t.Error("idle while the day's table is read")
	}
	if turn(keepPrevious); !p.Idle(0) {
		t.Error("not idle after the day's table is out of use")
	}
	p.Receive(c.batch())
	if p.Idle(0) {
		t.Error("idle with counts in this month's sum")
	}
}
