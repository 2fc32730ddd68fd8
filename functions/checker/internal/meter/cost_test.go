package meter

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// TestCost tests that the costs increase only with the changed shards.
func TestCost(t *testing.T) {
	t.Parallel()
	const requests, rate, interval, replicas = 1_000_000, 10_000, 2, 2
	const flushes = requests / rate / interval
	for _, keys := range []uint32{1, 1_000, 100_000} {
		now := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
		c := newCounters()
		m := New(Config{
			Run: "p", Interval: interval * time.Second, Writer: c, Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return now }, Find: func(apikey.Prefix) (uint32, bool) { return 0, false },
		})
		m.Publish(keys, nil, func() {})
		prefixes := make([]string, keys)
		for i := range prefixes {
			prefixes[i] = string(prefixAt(uint32(i)))
		}
		for range flushes {
			for range rate * interval {
				slot := rand.Uint32N(keys)
				m.Admit(slot, prefixes[slot], view.Limits{}, now)
			}
			now = now.Add(interval * time.Second)
			m.advance(now)
			m.Flush(t.Context())
		}
		shards := min((int64(keys)+block-1)/block, usage.Shards)
		if c.written > flushes*shards {
			t.Errorf("writes: got %d for %d keys, want at most %d", c.written, keys, flushes*shards)
		}
		idle := c.written
		for range 100 {
			m.Flush(t.Context())
		}
		if c.written != idle {
			t.Errorf("writes while idle: got %d, want 0", c.written-idle)
		}
		var largest int
		for _, d := range c.docs {
			largest = max(largest, len(d.Counts))
		}
		t.Logf("%7d keys: %5d document writes and %5d listener reads per 1 000 000 requests (at %d a second, a flush every %d s, %d replicas listening); largest document %d bytes",
			keys, c.written, c.written*replicas, rate, interval, replicas, largest)
	}
}

func BenchmarkFlush(b *testing.B) {
	const keys = 100_000
	now := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	c := newCounters()
	m := New(Config{
		Run: "p", Interval: time.Second, Writer: c, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return now }, Find: func(apikey.Prefix) (uint32, bool) { return 0, false },
	})
	m.Publish(keys, nil, func() {})
	for b.Loop() {
		b.StopTimer()
		for slot := range uint32(keys) {
			m.Admit(slot, string(prefixAt(slot)), view.Limits{}, now)
		}
		b.StartTimer()
		m.Flush(b.Context())
	}
	b.ReportMetric(float64(c.written)/float64(b.N), "documents/op")
}
