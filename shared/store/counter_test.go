package store_test

import (
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/store/storetest"
	"github.com/sluicegate/sluice/shared/usage"
)

func dayOf(t *testing.T, s string) usage.Day {
	t.Helper()
	d, err := usage.ParseDay(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func packed(prefix apikey.Prefix, allowed uint64) usage.Packed {
	return usage.Packed(nil).Pack(prefix, usage.Totals{Allowed: allowed})
}

// writeCounter writes a new counter and gives its version.
func writeCounter(t *testing.T, s *store.Store, c usage.Counter) store.CounterVersion {
	t.Helper()
	v, err := s.WriteCounter(t.Context(), c, store.CounterVersion{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// counters reads all counters of some days, by source and shard.
func counters(t *testing.T, s *store.Store, first, last string) map[string]usage.Packed {
	t.Helper()
	found := map[string]usage.Packed{}
	err := s.EachCounter(t.Context(), dayOf(t, first), dayOf(t, last), func(c usage.Counter) error {
		found[c.Day.String()+"."+string(c.Source)+"."+string(rune('0'+c.Shard))] = c.Counts
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A counter that was compacted away is gone for its source: what it writes
// changes nothing, and it learns that it has nothing to build on.
func TestCounterGone(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	c := usage.Counter{Day: dayOf(t, "2026-03-14"), Source: "run-1", Counts: packed("ab12cd34", 1)}
	v := writeCounter(t, s, c)
	if err := s.CompactCounters(t.Context(), c.Day, c.Shard, []usage.Source{c.Source}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteCounter(t.Context(), c, v); err == nil || problem.From(err).Code == problem.Internal {
		t.Errorf("written after it was compacted: %v", err)
	}
	if v, err := s.CounterVersion(t.Context(), c.Day, c.Source, c.Shard); err != nil || v != (store.CounterVersion{}) {
		t.Errorf("version %v, %v", v, err)
	}
	if got := counters(t, s, "2026-03-14", "2026-03-14"); len(got) != 1 {
		t.Errorf("counters are %v", got)
	}
}
