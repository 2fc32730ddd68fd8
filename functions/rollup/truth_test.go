package rollup

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// TestTotalsEqualTheTruth: for any interleaving of requests, flushes, restarts,
// runs, runs that crash at any call, two runs at once and compactions over days
// and months, reports equal what was flushed, and so do the sums that quotas are
// held against.
func TestTotalsEqualTheTruth(t *testing.T) {
	t.Parallel()
	for i := range 6 { // each of as many worlds as -rapid.checks says
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, live)
		})
	}
}

// live lets a world go its way.
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

// report reads a key's usage as package usage does: first how far days are
// settled, then counters, last the rollup.
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
		h = h.Raise(day, sums[p])
	}
	return usage.NewReport(usage.Window{From: usage.EarliestKept(w.today()), To: w.today()}, h, w.today())
}

// check compares every report with the truth.
func (w *world) check() {
	for key := range keys {
		p := prefix(key)
		r := w.report(p)
		last, seen := usage.Day(0), false
		for _, d := range r.Days {
			want := w.truth[d.Day][p]
			if d.Totals != want {
				w.t.Fatalf("%s on %s, reported on %s: %v, the truth is %v", p, d.Day, w.now, d.Totals, want)
			}
			if !want.Zero() {
				last, seen = d.Day, true
			}
		}
		if r.LastSeen != last || r.Seen != seen {
			w.t.Fatalf("%s was last seen on %s, %v; the truth is %s, %v", p, r.LastSeen, r.Seen, last, seen)
		}
	}
	w.checkCounters()
}

// checkCounters compares the counters that quotas need with the truth.
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
				w.t.Fatalf("counters of %s on %s sum up to %v, the truth is %v", p, day, sums[p], want)
			}
		}
	}
}

// checkDone is what holds after a run in which nothing failed and during which
// nothing else happened.
func (w *world) checkDone() {
	earliest := usage.EarliestKept(w.today())
	for _, c := range w.docs.counters {
		switch {
		case c.Day.Closed(w.now) && !c.Source.Compacted():
			w.t.Fatalf("%s is closed and not compacted", c.Day)
		case c.Day <= w.today()-usage.CounterDays:
			w.t.Fatalf("counters of %s are still there on %s", c.Day, w.now)
		}
	}
	for p, h := range w.docs.rollups {
		if h[0].Day < earliest-1 {
			w.t.Fatalf("%s keeps %s on %s", p, h[0].Day, w.now)
		}
	}
	for day := earliest; day <= w.today(); day++ {
		for p, want := range w.truth[day] {
			got := w.docs.rollups[p].On(day)
			if got != want && !w.now.Before(day.End()) || got.Zero() != want.Zero() {
				w.t.Fatalf("the rollup of %s has %v on %s, the truth is %v", p, got, day, want)
			}
		}
	}
}
