package rollup

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

const keys = 3

func prefix(key int) apikey.Prefix { return apikey.Prefix(fmt.Sprintf("key0000%d", key)) }

// world contains checkers that count and flush, rollups that run and crash, and a clock. truth
// contains the flushed totals, which reports must equal.
type world struct {
	t       *rapid.T
	now     time.Time
	docs    *documents
	sources map[usage.Day][]*source
	named   int
	truth   map[usage.Day]usage.Sums
	rollups [2]*Service
	calls   int // of the current run
	fault   fault
	faultAt int // the call that fails; with crash, later calls fail too
	crash   bool
	nested  int // the call before which other steps happen; 0 for none
}

type source struct {
	name   usage.CounterSource
	counts [2]usage.Sums
	wrote  [2]usage.Sums
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, now: time.Date(2027, 12, 20, 12, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 90*24).Draw(t, "start")) * time.Hour),
		sources: map[usage.Day][]*source{}, truth: map[usage.Day]usage.Sums{},
	}
	w.docs = newDocuments(func() time.Time { return w.now })
	for i := range w.rollups {
		w.restart(i)
	}
	return w
}

func (w *world) restart(i int) {
	w.rollups[i] = New(Config{Parallel: 1, Run: 60}, w.docs, slog.New(slog.DiscardHandler))
	w.rollups[i].now = func() time.Time { return w.now }
}

func (w *world) today() usage.Day { return usage.DayOf(w.now) }

// count counts requests. The clock of a checker may be wrong by some hours.
func (w *world) count() {
	day := usage.DayOf(w.now.Add(time.Duration(rapid.IntRange(-6, 6).Draw(w.t, "skew")) * time.Hour))
	if len(w.sources[day]) == 0 || rapid.IntRange(0, 9).Draw(w.t, "new source") == 0 {
		w.named++
		s := &source{name: usage.CounterSource(fmt.Sprintf("run%d-1", w.named))}
		for i := range s.counts {
			s.counts[i], s.wrote[i] = usage.Sums{}, usage.Sums{}
		}
		w.sources[day] = append(w.sources[day], s)
	}
	s := rapid.SampledFrom(w.sources[day]).Draw(w.t, "source")
	p := prefix(rapid.IntRange(0, keys-1).Draw(w.t, "key"))
	n := func(what string) uint64 { return rapid.Uint64Range(0, 5).Draw(w.t, what) }
	shard := rapid.IntRange(0, len(s.counts)-1).Draw(w.t, "shard")
	s.counts[shard][p] = s.counts[shard][p].Plus(usage.Totals{Allowed: n("allowed"), RateDenied: n("rate"), QuotaDenied: n("quota")})
}

func (w *world) flush() {
	for day, sources := range w.sources {
		for _, s := range sources {
			for shard := range s.counts {
				w.flushShard(day, s, shard)
			}
		}
	}
}

func (w *world) flushShard(day usage.Day, s *source, shard int) {
	c := usage.Counter{Day: day, Source: s.name, Shard: shard}
	for _, n := range s.counts[shard].Counts() {
		c.Counts = c.Counts.Pack(n.Prefix, n.Totals)
	}
	_, exists := w.docs.counters[counterID(c)]
	if len(c.Counts) == 0 || !exists && !w.now.Before(day.End().Add(usage.Late)) {
		return
	}
	w.docs.counters[counterID(c)] = c
	if w.truth[day] == nil {
		w.truth[day] = usage.Sums{}
	}
	for p, now := range s.counts[shard] {
		was, all := s.wrote[shard][p], w.truth[day][p]
		w.truth[day][p] = usage.Totals{
			Allowed:     all.Allowed + now.Allowed - was.Allowed,
			RateDenied:  all.RateDenied + now.RateDenied - was.RateDenied,
			QuotaDenied: all.QuotaDenied + now.QuotaDenied - was.QuotaDenied,
		}
		s.wrote[shard][p] = now
	}
}

func (w *world) run() {
	i := rapid.IntRange(0, 1).Draw(w.t, "which")
	if rapid.IntRange(0, 3).Draw(w.t, "restarted") == 0 {
		w.restart(i)
	}
	w.calls, w.crash = 0, rapid.Bool().Draw(w.t, "crash")
	w.fault = rapid.SampledFrom([]fault{none, lost, after}).Draw(w.t, "fault")
	w.faultAt = rapid.IntRange(1, 40).Draw(w.t, "at")
	w.nested = rapid.IntRange(0, 30).Draw(w.t, "nested")
	failed := false
	w.docs.before = func(bool) fault {
		w.calls++
		if w.calls == w.nested {
			w.meanwhile(1 - i)
		}
		if w.fault != none && (w.calls == w.faultAt || w.crash && w.calls > w.faultAt) {
			failed = true
			if w.calls > w.faultAt {
				return lost
			}
			return w.fault
		}
		return none
	}
	_, err := w.rollups[i].Run(w.t.Context())
	w.docs.before = func(bool) fault { return none }
	if failed != (err != nil) || err != nil && !errors.Is(err, errFault) {
		w.t.Fatalf("run: got %v; failed call: %v", err, failed)
	}
	if err == nil && (w.nested == 0 || w.nested > w.calls) {
		w.checkDone()
	}
}

func (w *world) meanwhile(other int) {
	before := w.docs.before
	w.docs.before = func(bool) fault { return none }
	defer func() { w.docs.before = before }()
	w.flush()
	if rapid.Bool().Draw(w.t, "another run") {
		if _, err := w.rollups[other].Run(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	if rapid.Bool().Draw(w.t, "report") {
		w.check()
	}
}

func (w *world) wait() {
	hours := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(6, 30), rapid.IntRange(40, 24*10), rapid.IntRange(24*30, 24*100))
	w.now = w.now.Add(time.Duration(hours.Draw(w.t, "hours")) * time.Hour)
}
