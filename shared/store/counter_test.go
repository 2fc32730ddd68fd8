package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func dayOf(t *testing.T, s string) usage.Day {
	t.Helper()
	d, err := usage.ParseDay(s)
	check.OK(t, err)
	return d
}

func packed(prefix apikey.Prefix, allowed uint64) usage.Packed {
	return usage.Packed(nil).Pack(prefix, usage.Totals{Allowed: allowed})
}

func writeCounter(t *testing.T, s *store.Store, c usage.Counter) store.CounterVersion {
	t.Helper()
	v, err := s.WriteCounter(t.Context(), c, store.CounterVersion{})
	check.OK(t, err)
	return v
}

func counters(t *testing.T, s *store.Store, first, last string) map[string]usage.Packed {
	t.Helper()
	found := map[string]usage.Packed{}
	err := s.EachCounter(t.Context(), dayOf(t, first), dayOf(t, last), func(c usage.Counter) error {
		found[c.Day.String()+"."+string(c.Source)+"."+string(rune('0'+c.Shard))] = c.Counts
		return nil
	})
	check.OK(t, err)
	return found
}

func TestWriteCompactedCounter(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	c := usage.Counter{Day: dayOf(t, "2026-03-14"), Source: "run-1", Counts: packed("ab12cd34", 1)}
	v := writeCounter(t, s, c)
	check.OK(t, s.CompactCounters(t.Context(), c.Day, c.Shard, []usage.CounterSource{c.Source}))
	if _, err := s.WriteCounter(t.Context(), c, v); err == nil || problem.From(err).Code == problem.Internal {
		t.Errorf("write of a compacted counter: got %v, want a problem", err)
	}
	if v, err := s.CounterVersion(t.Context(), c.Day, c.Source, c.Shard); err != nil || v != (store.CounterVersion{}) {
		t.Errorf("version of a compacted counter: got %v, %v, want zero", v, err)
	}
	if got := counters(t, s, "2026-03-14", "2026-03-14"); len(got) != 1 {
		t.Errorf("counters: got %v, want one", got)
	}
}

func TestEachCounter(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, day := range []string{"2026-02-28", "2026-03-01", "2026-03-02", "2026-03-03"} {
		writeCounter(t, s, usage.Counter{Day: dayOf(t, day), Source: "run-1", Counts: packed("ab12cd34", 1)})
	}
	check.OK(t, s.WriteCanary(t.Context(), store.CanaryCounters, store.Canary{Replica: "a", Run: "r", Seq: 1}))
	got := counters(t, s, "2026-03-01", "2026-03-02")
	want := map[string]usage.Packed{"2026-03-01.run-1.0": packed("ab12cd34", 1), "2026-03-02.run-1.0": packed("ab12cd34", 1)}
	check.Equal(t, "counters", want, got)
	if oldest, err := s.OldestCounter(t.Context()); err != nil || oldest != dayOf(t, "2026-02-28") {
		t.Errorf("oldest counter: got %s, %v, want 2026-02-28", oldest, err)
	}
	stop := errors.New("stop")
	if err := s.EachCounter(t.Context(), 0, 1<<20, func(usage.Counter) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got error %v, want the error of use", err)
	}
}

func TestNoOldestCounter(t *testing.T) {
	t.Parallel()
	if _, err := storetest.New(t).OldestCounter(t.Context()); !problem.Is(err, problem.NotFound) {
		t.Errorf("got error %v, want not_found", err)
	}
}

func TestDamagedCounter(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, day := storetest.Open(t, project), dayOf(t, "2026-03-14")
	for _, id := range []string{"2026-03-14.run-1.0", "2026-03-14.compacted.1"} {
		storetest.Damage(t, project, "counters/"+id, map[string]any{"day": "2026-03-14"})
	}
	var calls atomic.Int64
	s.Observe(func(op, outcome string, _ time.Duration, _ bool) {
		if op == "read_counter" && outcome == store.Damaged {
			calls.Add(1)
		}
	})
	for shard := range 2 {
		writeCounter(t, s, usage.Counter{Day: day, Source: "run-2", Shard: shard, Counts: packed("aaaaaaaa", 5)})
		if err := s.CompactCounters(t.Context(), day, shard, []usage.CounterSource{"run-1", "run-2"}); err != nil {
			t.Errorf("compact shard %d: %v", shard, err)
		}
	}
	calls.Store(0)
	found := map[string]uint64{}
	err := s.EachCounter(t.Context(), day, day, func(c usage.Counter) error {
		id := usage.CounterID(c.Day, c.Source, c.Shard)
		if found[id] = 0; c.Damaged == nil {
			sums := usage.Sums{}
			sums.Add(c.Counts)
			found[id] = sums["aaaaaaaa"].Allowed
		}
		return nil
	})
	want := map[string]uint64{"2026-03-14.run-1.0": 0, "2026-03-14.compacted.0": 5, "2026-03-14.compacted.1": 0, "2026-03-14.run-2.1": 5}
	if diff := cmp.Diff(want, found); diff != "" || err != nil {
		t.Errorf("counters, damaged ones as 0 (-want +got), %v:\n%s", err, diff)
	}
	if calls.Load() != 2 {
		t.Errorf("got %d damaged documents, want 2", calls.Load())
	}
	if n, err := s.DeleteCounters(t.Context(), day+1); n != 2 || err != nil {
		t.Errorf("got %d deleted counters, %v, want 2", n, err)
	}
	if left := counters(t, s, "2026-03-14", "2026-03-14"); len(left) != 2 {
		t.Errorf("got %v left, want the damaged counters", left)
	}
}

func TestCompactCounters(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	day := dayOf(t, "2026-03-14")
	write := func(source usage.CounterSource, shard int, prefix apikey.Prefix, allowed uint64) {
		writeCounter(t, s, usage.Counter{Day: day, Source: source, Shard: shard, Counts: packed(prefix, allowed)})
	}
	write("run-1", 0, "aaaaaaaa", 1)
	write("run-2", 0, "aaaaaaaa", 2)
	write("run-3", 0, "bbbbbbbb", 4)
	write("run-1", 1, "aaaaaaaa", 8)
	writeCounter(t, s, usage.Counter{Day: day + 1, Source: "run-1", Counts: packed("aaaaaaaa", 16)})
	rest := map[string]usage.Packed{"2026-03-14.run-1.1": packed("aaaaaaaa", 8), "2026-03-15.run-1.0": packed("aaaaaaaa", 16)}
	for _, step := range []struct {
		name  string
		write func()
		want  usage.Packed
	}{
		{"sources", func() {}, append(packed("aaaaaaaa", 3), packed("bbbbbbbb", 4)...)},
		{"again", func() {}, append(packed("aaaaaaaa", 3), packed("bbbbbbbb", 4)...)},
		{"a source that came later", func() { write("run-4", 0, "bbbbbbbb", 1) }, append(packed("aaaaaaaa", 3), packed("bbbbbbbb", 5)...)},
	} {
		step.write()
		if err := s.CompactCounters(t.Context(), day, 0, []usage.CounterSource{"run-1", "run-2", "run-3", "run-4"}); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		rest["2026-03-14.compacted.0"] = step.want
		check.Equal(t, step.name, rest, counters(t, s, "2026-03-14", "2026-03-15"))
	}
}

// maxWrites is the limit of package store.
const maxWrites = 400

func TestCompactManySources(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	day := dayOf(t, "2026-03-14")
	var sources []usage.CounterSource
	var g errgroup.Group
	g.SetLimit(8)
	for i := range maxWrites + 48 {
		source := usage.CounterSource(fmt.Sprintf("run-%d", i))
		sources = append(sources, source)
		g.Go(func() error {
			c := usage.Counter{Day: day, Source: source, Counts: packed("aaaaaaaa", 1)}
			_, err := s.WriteCounter(t.Context(), c, store.CounterVersion{})
			return err
		})
	}
	check.OK(t, g.Wait())
	check.OK(t, s.CompactCounters(t.Context(), day, 0, sources))
	want := map[string]usage.Packed{"2026-03-14.compacted.0": packed("aaaaaaaa", maxWrites+48)}
	check.Equal(t, "counters", want, counters(t, s, "2026-03-14", "2026-03-14"))
}

func TestCompactOpenDay(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	today := usage.DayOf(time.Now())
	for day := today - 1; day <= today; day++ {
		writeCounter(t, s, usage.Counter{Day: day, Source: "run-1", Counts: packed("aaaaaaaa", 1)})
		if err := s.CompactCounters(t.Context(), day, 0, []usage.CounterSource{"run-1"}); !errors.Is(err, store.ErrNotClosed) {
			t.Errorf("compact %s: got %v, want ErrNotClosed", day, err)
		}
		if err := s.SettleDay(t.Context(), day); !errors.Is(err, store.ErrNotClosed) {
			t.Errorf("finalize %s: got %v, want ErrNotClosed", day, err)
		}
	}
}

// The emulator may show a half of one commit, so one wrong shard is tolerated during the
// compactions.
func TestReadDuringCompaction(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	day := dayOf(t, "2026-03-14")
	const shards = 8
	names := []usage.CounterSource{"run-1", "run-2", "run-3", "run-4", "run-5"}
	for shard := range shards {
		for _, source := range names {
			writeCounter(t, s, usage.Counter{Day: day, Source: source, Shard: shard, Counts: packed("aaaaaaaa", 1)})
		}
	}
	var commits atomic.Int64
	s.Observe(func(op, outcome string, _ time.Duration, _ bool) {
		if op == "commit" && outcome == "OK" {
			commits.Add(1)
		}
	})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for reads := 0; ; reads++ {
				select {
				case <-done:
					if reads == 0 {
						t.Error("got no reads during the compactions")
					}
					return
				default:
				}
				if halves := halfCompacted(t, s, day, shards, len(names)); len(halves) > 1 {
					t.Errorf("got wrong sums for shards %v at the same time, want at most one", halves)
				}
			}
		})
	}
	for shard := range shards {
		if err := s.CompactCounters(t.Context(), day, shard, names); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
	if n := commits.Load(); n != shards {
		t.Errorf("got %d shards in %d commits, want one commit each", shards, n)
	}
	if halves := halfCompacted(t, s, day, shards, len(names)); len(halves) != 0 {
		t.Errorf("got wrong sums for shards %v at the end", halves)
	}
}

// halfCompacted returns the shards of a day that contain neither exactly all sources nor exactly
// their sum.
func halfCompacted(t *testing.T, s *store.Store, day usage.Day, shards, sources int) (halves []int) {
	t.Helper()
	sums, alone := make([]uint64, shards), make([]int, shards)
	err := s.EachCounter(t.Context(), day, day, func(c usage.Counter) error {
		counts := usage.Sums{}
		counts.Add(c.Counts)
		sums[c.Shard] += counts["aaaaaaaa"].Allowed
		if !c.Source.Compacted() {
			alone[c.Shard]++
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for shard := range shards {
		if sums[shard] != uint64(sources) || alone[shard] != 0 && alone[shard] != sources {
			halves = append(halves, shard)
		}
	}
	return halves
}

func TestDeleteCounters(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for day := dayOf(t, "2026-02-26"); day <= dayOf(t, "2026-03-02"); day++ {
		writeCounter(t, s, usage.Counter{Day: day, Source: "run-1", Counts: packed("aaaaaaaa", 1)})
	}
	for _, want := range []int{3, 0} {
		if n, err := s.DeleteCounters(t.Context(), dayOf(t, "2026-03-01")); err != nil || n != want {
			t.Errorf("got %d deleted, want %d; error %v", n, want, err)
		}
	}
	if got := counters(t, s, "2026-02-01", "2026-03-31"); len(got) != 2 {
		t.Errorf("got %v left, want two counters", got)
	}
}
