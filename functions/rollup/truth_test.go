package rollup

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// TestTotalsEqualTheTruth checks that reports and the sums for quotas equal the flushed counts. It
// interleaves requests, flushes, restarts, crashes and concurrent runs over months.
func TestTotalsEqualTheTruth(t *testing.T) {
	t.Parallel()
	for i := range 6 { // each with -rapid.checks worlds
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, live)
		})
	}
}

func live(t *rapid.T) {
	w := newWorld(t)
	t.Repeat(map[string]func(*rapid.T){
		"count": func(*rapid.T) { w.count(); w.count(); w.count() },
		"flush": func(*rapid.T) { w.flush() },
		"run":   func(*rapid.T) { w.run() },
		"wait":  func(*rapid.T) { w.wait() },
		"":      func(*rapid.T) { w.check() },
	})
}

// report reads a key's usage as package usage does: the last finalized day, then the counters, then
// the rollup.
func (w *world) report(p apikey.Prefix) usage.Report {
	first := usage.EarliestKept(w.today())
	if w.docs.settled != nil {
		first = max(first, *w.docs.settled+1)
	}
	open := map[usage.Day]usage.Sums{}
	for _, c := range w.docs.sorted(first, w.today()) {
		if open[c.Day] == nil {
			open[c.Day] = usage.Sums{}
		}
		open[c.Day].Add(c.Counts)
	}
	h := w.docs.rollups[p]
	for day, sums := range open {
		h = h.Merge(day, sums[p])
	}
	return usage.NewReport(usage.Window{From: usage.EarliestKept(w.today()), To: w.today()}, h, w.today())
}

func (w *world) check() {
	for key := range keys {
		p := prefix(key)
		r := w.report(p)
		last, seen := usage.Day(0), false
		for _, d := range r.Days {
			want := w.truth[d.Day][p]
			if d.Totals != want {
				w.t.Fatalf("%s on %s, reported on %s: got %v, want %v", p, d.Day, w.now, d.Totals, want)
			}
			if !want.Zero() {
				last, seen = d.Day, true
			}
		}
		if r.LastSeen != last || r.Seen != seen {
			w.t.Fatalf("%s last seen: got %s, %v, want %s, %v", p, r.LastSeen, r.Seen, last, seen)
		}
	}
	w.checkCounters()
}

func (w *world) checkCounters() {
	for day, truth := range w.truth {
		if day <= w.today()-usage.CounterDays {
			continue
		}
		sums := usage.Sums{}
		for _, c := range w.docs.sorted(day, day) {
			sums.Add(c.Counts)
		}
		for p, want := range truth {
			if sums[p] != want {
				w.t.Fatalf("sum of the counters of %s on %s: got %v, want %v", p, day, sums[p], want)
			}
		}
	}
}

func (w *world) checkDone() {
	earliest := usage.EarliestKept(w.today())
	for _, c := range w.docs.counters {
		switch {
		case c.Day.Closed(w.now) && !c.Source.Compacted():
			w.t.Fatalf("closed day %s: got it not compacted", c.Day)
		case c.Day <= w.today()-usage.CounterDays:
			w.t.Fatalf("counters of %s: got them stored on %s", c.Day, w.now)
		}
	}
	for p, h := range w.docs.rollups {
		if h[0].Day < earliest-1 {
			w.t.Fatalf("%s: got day %s stored on %s", p, h[0].Day, w.now)
		}
	}
	for day := earliest; day <= w.today(); day++ {
		for p, want := range w.truth[day] {
			got := w.docs.rollups[p].Totals(day)
			if got != want && !w.now.Before(day.End()) || got.Zero() != want.Zero() {
				w.t.Fatalf("rollup of %s: got %v on %s, want %v", p, got, day, want)
			}
		}
	}
}
