package rollup

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// The tests use days of 2024, around a leap day: they are over by the store's clock.

type clocked struct {
	*store.Store

	now func() time.Time
}

func (c clocked) Now(context.Context) (time.Time, error) { return c.now(), nil }

func service(s *store.Store, now time.Time) *Service {
	svc := New(Config{Parallel: 4, Run: 50}, nil, slog.New(slog.DiscardHandler))
	svc.now = func() time.Time { return now }
	svc.store = clocked{s, func() time.Time { return svc.now() }}
	return svc
}

func day(t *testing.T, s string) usage.Day {
	t.Helper()
	d, err := usage.ParseDay(s)
	check.OK(t, err)
	return d
}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	now, err := time.Parse(time.RFC3339, s)
	check.OK(t, err)
	return now
}

func rollUp(t *testing.T, svc *Service) Result {
	t.Helper()
	r, err := svc.Run(t.Context())
	check.OK(t, err)
	return r
}

func write(t *testing.T, s *store.Store, on string, source usage.CounterSource, shard int, counts ...usage.Count) {
	t.Helper()
	c := usage.Counter{Day: day(t, on), Source: source, Shard: shard}
	for _, n := range counts {
		c.Counts = c.Counts.Pack(n.Prefix, n.Totals)
	}
	if _, err := s.WriteCounter(t.Context(), c, store.CounterVersion{}); err != nil {
		t.Fatal(err)
	}
}

func one(p apikey.Prefix) usage.Count {
	return usage.Count{Prefix: p, Totals: usage.Totals{Allowed: 1}}
}

func sources(t *testing.T, s *store.Store) map[string][]usage.CounterSource {
	t.Helper()
	found := map[string][]usage.CounterSource{}
	err := s.EachCounter(t.Context(), 0, 1<<20, func(c usage.Counter) error {
		found[c.Day.String()] = append(found[c.Day.String()], c.Source)
		return nil
	})
	check.OK(t, err)
	return found
}

func rollups(t *testing.T, s *store.Store, prefixes ...apikey.Prefix) []usage.History {
	t.Helper()
	h, err := s.Rollups(t.Context(), prefixes)
	check.OK(t, err)
	return h
}

// seedWeek writes counters of two sources from February 26 to March 3.
func seedWeek(t *testing.T, s *store.Store) {
	t.Helper()
	for d := day(t, "2024-02-26"); d <= day(t, "2024-03-03"); d++ {
		write(t, s, d.String(), "a-1", 0, one("aaaaaaaa"))
		write(t, s, d.String(), "b-1", 0, one("aaaaaaaa"), usage.Count{Prefix: "bbbbbbbb", Totals: usage.Totals{RateDenied: 2, QuotaDenied: 3}})
		write(t, s, d.String(), "b-1", 1, one("aaaaaaaa"))
	}
}

func TestRunOverALeapDay(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	seedWeek(t, s)
	now := at(t, "2024-03-03T12:00:00Z")
	r := rollUp(t, service(s, now))
	if r.Settled != 4 || r.Days != 8 {
		t.Errorf("run: got %+v", r)
	}
	if settled, err := s.SettledDay(t.Context()); err != nil || settled.String() != "2024-02-29" {
		t.Errorf("settled day: got %s, %v", settled, err)
	}
	var first, second usage.History
	for d := day(t, "2024-02-26"); d <= day(t, "2024-03-03"); d++ {
		first = first.Merge(d, usage.Totals{Allowed: 3})
		second = second.Merge(d, usage.Totals{RateDenied: 2, QuotaDenied: 3})
	}
	check.Equal(t, "rollups", []usage.History{first, second}, rollups(t, s, "aaaaaaaa", "bbbbbbbb"))
	compacted, open := []usage.CounterSource{"compacted", "compacted"}, []usage.CounterSource{"a-1", "b-1", "b-1"}
	want := map[string][]usage.CounterSource{
		"2024-02-26": compacted, "2024-02-27": compacted, "2024-02-28": compacted, "2024-02-29": compacted,
		"2024-03-01": open, "2024-03-02": open, "2024-03-03": open,
	}
	check.Equal(t, "sources", want, sources(t, s))
}

func TestRunAgain(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	seedWeek(t, s)
	svc := service(s, at(t, "2024-03-03T12:00:00Z"))
	rollUp(t, svc)
	before, counters := rollups(t, s, "aaaaaaaa", "bbbbbbbb"), sources(t, s)
	if r := rollUp(t, svc); r.Settled != 0 || r.Rollups != 0 || r.Counters != 9 {
		t.Errorf("second run: got %+v", r)
	}
	if r := rollUp(t, service(s, at(t, "2024-03-03T12:00:00Z"))); r.Settled != 0 {
		t.Errorf("run of another process: got %+v", r)
	}
	if diff := cmp.Diff(before, rollups(t, s, "aaaaaaaa", "bbbbbbbb")); diff != "" {
		t.Errorf("rollups (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(counters, sources(t, s)); diff != "" {
		t.Errorf("sources (-before +after):\n%s", diff)
	}
}

func TestTwoRunsAtOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	seedWeek(t, s)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			// A conflict may abort a transaction, and thus a run.
			_, err := service(s, at(t, "2024-03-04T00:00:00Z")).Run(t.Context())
			if err != nil && !problem.Is(err, problem.Conflict) && !problem.Is(err, problem.Unavailable) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rollUp(t, service(s, at(t, "2024-03-04T00:00:00Z")))
	for _, h := range rollups(t, s, "aaaaaaaa") {
		if len(h) != 7 {
			t.Errorf("history: got %v", h)
		}
		for _, d := range h {
			if d.Totals != (usage.Totals{Allowed: 3}) {
				t.Errorf("%s: got %v", d.Day, d.Totals)
			}
		}
	}
	for d, found := range sources(t, s) {
		if closed := day(t, d).Closed(at(t, "2024-03-04T00:00:00Z")); closed != found[0].Compacted() || closed && len(found) != 2 {
			t.Errorf("%s: got %v", d, found)
		}
	}
}

func TestLateCounts(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	write(t, s, "2024-03-03", "a-1", 0, one("aaaaaaaa"))
	for _, step := range []struct {
		now  string
		more usage.CounterSource
		want uint64
	}{
		{"2024-03-03T10:00:00Z", "b-1", 1},
		{"2024-03-03T23:59:59Z", "", 1},
		{"2024-03-04T00:00:00Z", "c-1", 2},
		{"2024-03-04T10:00:00Z", "d-1", 3},
		{"2024-03-06T00:00:00Z", "", 4}, // finalized
	} {
		rollUp(t, service(s, at(t, step.now)))
		if got := rollups(t, s, "aaaaaaaa")[0].Totals(day(t, "2024-03-03")).Allowed; got != step.want {
			t.Errorf("rollup at %s: got %d, want %d", step.now, got, step.want)
		}
		if step.more != "" {
			write(t, s, "2024-03-03", step.more, 0, one("aaaaaaaa"))
		}
	}
}
