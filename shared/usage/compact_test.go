package usage

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/apikey"
)

func sum(counters []Counter) Sums {
	s := Sums{}
	for _, c := range counters {
		s.Add(c.Counts)
	}
	return s
}

// Repeated compaction changes no sum, also if there are new counters.
func TestCompactKeepsSums(t *testing.T) {
	t.Parallel()
	counter := rapid.Custom(func(t *rapid.T) Counter {
		var p Packed
		for range rapid.IntRange(0, 5).Draw(t, "counts") {
			key := rapid.IntRange(0, 6).Draw(t, "key")
			p = p.Pack(apikey.Prefix(fmt.Sprintf("%08d", key)), Totals{rapid.Uint64Range(0, 9).Draw(t, "allowed"), 1, 2})
		}
		return Counter{Day: 7, Source: "run-1", Shard: 3, Counts: p}
	})
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SliceOf(counter).Draw(t, "first")
		second := rapid.SliceOf(counter).Draw(t, "second")
		once, err := Compact(7, 3, first)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := Compact(7, 3, append(append([]Counter{}, once...), second...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sum(append(first, second...)), sum(twice)); diff != "" {
			t.Fatalf("sums (-want +got):\n%s", diff)
		}
		for _, c := range twice {
			if c.Day != 7 || c.Shard != 3 || !c.Source.Compacted() || c.Counts.Check() != nil {
				t.Fatalf("got compacted counter %+v", c)
			}
		}
	})
}

func TestCompactParts(t *testing.T) {
	t.Parallel()
	var counts []Count
	for i := range 100 {
		counts = append(counts, Count{Prefix: apikey.Prefix(fmt.Sprintf("%08d", i)), Totals: Totals{Allowed: 1}})
	}
	parts := compactParts(7, 3, counts, 300)
	seen := map[CounterSource]bool{}
	for _, p := range parts {
		if seen[p.Source] || !p.Source.Compacted() {
			t.Errorf("got source %q, want a new compacted one", p.Source)
		}
		seen[p.Source] = true
		if len(p.Counts) > 300+30 {
			t.Errorf("got a part of %d bytes, want at most 330", len(p.Counts))
		}
	}
	if len(parts) != 4 || len(sum(parts)) != 100 {
		t.Errorf("got %d parts with %d keys, want 4 with 100", len(parts), len(sum(parts)))
	}
}

func TestCompactTooMany(t *testing.T) {
	t.Parallel()
	var p Packed
	for i := range compactedParts * (maxCompacted/11 + 2) {
		p = p.Pack(apikey.Prefix(fmt.Sprintf("%08d", i)), Totals{})
	}
	if _, err := Compact(7, 3, []Counter{{Counts: p}}); !errors.Is(err, ErrTooMany) {
		t.Errorf("got error %v, want ErrTooMany", err)
	}
}

func TestCompacted(t *testing.T) {
	t.Parallel()
	for _, source := range CompactedSources() {
		if !source.Compacted() {
			t.Errorf("Compacted of %q: got false", source)
		}
	}
	for source, want := range map[CounterSource]bool{"compacted": true, "compacted-1": true, "a1b2c3-1": false, "": false, "compactedx-1": false} {
		if got := source.Compacted(); got != want {
			t.Errorf("Compacted of %q: got %v", source, got)
		}
	}
}

func TestDayClosingTime(t *testing.T) {
	t.Parallel()
	d := day(t, "2028-02-29")
	closes := day(t, "2028-03-03").Start()
	if d.Closed(closes.Add(-1)) || !d.Closed(closes) {
		t.Errorf("%s: got another closing time than %s", d, closes)
	}
	if Closing <= Late {
		t.Errorf("closing time: got %s after the end, want more than %s", Closing, Late)
	}
}
