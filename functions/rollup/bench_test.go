package rollup

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// BenchmarkRollup measures merging, compacting and settling a day with two replicas and 100,000
// keys, without the time of the store.
func BenchmarkRollup(b *testing.B) {
	const keys = 100_000
	now := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	before := usage.DayOf(now) - 4
	for b.Loop() {
		b.StopTimer()
		d := newDocuments(func() time.Time { return now })
		for _, source := range []usage.CounterSource{"a-1", "b-1"} {
			for shard := range usage.Shards {
				c := usage.Counter{Day: before, Source: source, Shard: shard}
				for i := shard; i < keys; i += usage.Shards {
					c.Counts = c.Counts.Pack(apikey.Prefix(fmt.Sprintf("%08d", i)), usage.Totals{Allowed: 7, RateDenied: 1})
				}
				d.counters[counterID(c)] = c
			}
		}
		s := New(Config{Parallel: 8, Run: 50}, d, slog.New(slog.DiscardHandler))
		s.now = func() time.Time { return now }
		b.StartTimer()
		if _, err := s.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		if len(d.rollups) != keys || d.settled == nil || *d.settled < before {
			b.Fatalf("got %d rollups, settled up to %v", len(d.rollups), d.settled)
		}
	}
	b.ReportMetric(keys*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
}
