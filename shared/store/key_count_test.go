package store

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestPlaceOfCount(t *testing.T) {
	t.Parallel()
	const limit = 10000
	for _, test := range []struct {
		name      string
		keys, own int
		age       time.Duration
		limit     int
		want      countPlace
	}{
		{"far", 2000, 0, 0, limit, countReused},
		{"last reuse by number", 2000, keysPerCount - 1, 0, limit, countReused},
		{"count used up", 2000, keysPerCount, 0, limit, countAgain},
		{"last reuse by age", 2000, 0, countReuse - 1, limit, countReused},
		{"count too old", 2000, 0, countReuse, limit, countAgain},
		{"no count yet", 0, 0, 1e6 * time.Hour, limit, countAgain},
		{"last key far from the limit", limit - keysAtOnce - 1, 0, 0, limit, countReused},
		{"first key near the limit", limit - keysAtOnce, 0, 0, limit, countInside},
		{"near by its own keys", limit - keysAtOnce - 5, 5, 0, limit, countInside},
		{"full", limit, 0, 0, limit, countInside},
		{"near and too old", limit, 0, countReuse, limit, countAgain},
		{"lowered limit", 2000, 0, 0, 1000, countInside},
		{"small limit", 0, 0, countReuse, keysAtOnce, countInside},
		{"smallest limit that counts outside", 0, 0, 0, keysAtOnce + 1, countReused},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := placeOfCount(test.keys, test.own, test.age, test.limit); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// TestKeyProcesses compares the bounds with each other and with the chart's schema.
func TestKeyProcesses(t *testing.T) {
	t.Parallel()
	if n := keyProcesses * keysPerCount; n >= keysAtOnce || keysInProgress >= keysPerCount {
		t.Errorf("got %d keys without a write, want fewer than %d", n, keysAtOnce)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "infra", "chart", "values.schema.json"))
	check.OK(t, err)
	type scale struct {
		Maximum int `json:"maximum"`
	}
	var schema struct {
		Properties struct {
			Functions struct {
				AllOf []struct {
					Properties struct {
						Keys struct {
							Properties struct {
								Replicas scale `json:"replicas"`
								MaxScale scale `json:"maxScale"`
							} `json:"properties"`
						} `json:"keys"`
					} `json:"properties"`
				} `json:"allOf"`
			} `json:"functions"`
		} `json:"properties"`
	}
	check.OK(t, json.Unmarshal(text, &schema))
	if len(schema.Properties.Functions.AllOf) != 1 {
		t.Fatal("the schema has no bounds for keys")
	}
	keys := schema.Properties.Functions.AllOf[0].Properties.Keys.Properties
	if got, want := [2]int{keys.Replicas.Maximum, keys.MaxScale.Maximum}, [2]int{keyProcesses - 1, keyProcesses / 2}; got != want {
		t.Errorf("highest replicas and maxScale: got %v, want %v", got, want)
	}
}

// A count allows keysPerCount creations, less those in progress at its start.
func TestCountAllowsCreations(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Unix(1, 0) }
	c, forget := new(keyCounts).enter("shop-prod", now())
	defer forget()
	counts := 0
	admit := func(ctx context.Context, fails error) error {
		version, err := c.admit(ctx, 10000, now, func(context.Context) (time.Time, int, error) {
			counts++
			return now(), 0, fails
		})
		if err == nil && version.IsZero() {
			t.Error("got a new count, want the current one")
		}
		return err
	}
	broken := errors.New("broken")
	if err := admit(t.Context(), broken); !errors.Is(err, broken) || len(c.inProgress) != 0 {
		t.Fatalf("failed count: got %v and %d in progress", err, len(c.inProgress))
	}
	const third = 2*keysPerCount - (keysInProgress - 1)
	for i := range third + 1 {
		check.OK(t, admit(t.Context(), nil))
		if want := 2 + i/keysPerCount + i/third; counts != want {
			t.Fatalf("creation %d: got %d counts, want %d", i+1, counts, want)
		}
		if len(c.inProgress) == keysInProgress {
			<-c.inProgress
		}
	}
	for len(c.inProgress) < keysInProgress {
		c.inProgress <- struct{}{}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := admit(ended, nil); !problem.Is(err, problem.Unavailable) {
		t.Errorf("no slot: got %v, want unavailable", err)
	}
}

func TestIdleCountIsForgotten(t *testing.T) {
	t.Parallel()
	var counts keyCounts
	start := time.Unix(1, 0)
	used, _ := counts.enter("used", start)
	idle, forget := counts.enter("idle", start)
	idle.at = start
	forget()
	for _, test := range []struct {
		name string
		at   time.Time
		want []string
	}{
		{"a", start, []string{"a", "idle", "used"}},
		{"b", start.Add(countReuse), []string{"a", "b", "used"}},
	} {
		counts.enter(test.name, test.at)
		if got := slices.Sorted(maps.Keys(counts.of)); !slices.Equal(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	if again, _ := counts.enter("used", start.Add(time.Hour)); again != used {
		t.Error("got a new count for an environment in use")
	}
}

type simulation struct {
	*rand.Rand

	limit     int
	keys      int
	version   time.Time
	clock     time.Time
	pace      time.Duration
	calm      int
	unwritten int // commits without a write since the last write
	peak      int // maximum of unwritten since the limit was near
}

func (s *simulation) create(ctx context.Context, c *keyCount, yield func() bool) error {
	read := func(context.Context) (time.Time, int, error) {
		version := s.version
		yield()
		keys := s.keys
		yield()
		return version, keys, nil
	}
	version, err := c.admit(ctx, s.limit, func() time.Time { return s.clock }, read)
	if err != nil {
		return err
	}
	defer func() { <-c.inProgress }()
	yield()
	if version.Equal(s.version) {
		s.commit(false)
		return nil
	}
	for {
		version, keys, _ := read(ctx)
		switch {
		case keys >= s.limit:
			return nil
		case version.Equal(s.version):
			s.commit(keys >= s.limit-keysAtOnce)
			return nil
		}
	}
}

func (s *simulation) commit(write bool) {
	s.keys++
	switch {
	case write:
		s.version, s.unwritten = s.version.Add(1), 0
	case s.keys > s.limit-keysAtOnce:
		s.unwritten++
		s.peak = max(s.peak, s.unwritten)
	}
}

// disturb moves the clock, revokes keys, or creates many keys near the limit, each with a count in
// its transaction.
func (s *simulation) disturb() {
	s.clock = s.clock.Add(time.Duration(s.Int64N(int64(s.pace))))
	switch near := s.keys >= s.limit-keysAtOnce; s.IntN(2 * s.calm) {
	case 0:
		s.keys -= min(s.keys, s.IntN(60))
	case 1:
		for range s.IntN(200) {
			if near && s.keys < s.limit {
				s.commit(true)
			}
		}
	}
}

// TestKeyLimitInAnyOrder interleaves the steps of all processes at random. Some processes stop for
// a long time.
func TestKeyLimitInAnyOrder(t *testing.T) {
	t.Parallel()
	peak := 0
	for seed := range uint64(300) {
		s := &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), version: time.Unix(1, 0), clock: time.Unix(2, 0)}
		s.pace, s.calm = 20*time.Millisecond>>s.IntN(16), 100<<s.IntN(5)
		far := s.IntN(200)
		s.limit, s.keys = keysAtOnce+far, max(0, far-s.IntN(2*keysPerCount))
		s.run(t, seed)
		peak = max(peak, s.peak)
	}
	t.Logf("near the limit, at most %d keys in a row without a write; the bound is %d", peak, keyProcesses*keysPerCount)
	if peak < keyProcesses*keysPerCount/2 {
		t.Error("the simulation does not reach the bound's range")
	}
}

func (s *simulation) run(t *testing.T, seed uint64) {
	t.Helper()
	type process struct {
		count    *keyCount
		creating []func() (struct{}, bool)
		stopped  bool
	}
	processes := make([]process, keyProcesses)
	for i := range processes {
		processes[i].count, _ = new(keyCounts).enter("", s.clock)
	}
	for steps, left := 0, 6000; left > 0 || slices.ContainsFunc(processes, func(p process) bool { return len(p.creating) > 0 }); steps++ {
		p := &processes[s.IntN(len(processes))]
		if s.IntN(200) == 0 {
			p.stopped = !p.stopped
		}
		if p.stopped && left > 0 {
			continue
		}
		s.disturb()
		c := p.count
		if left--; left > 0 && s.IntN(3) > 0 && len(c.turn) == 0 && len(c.inProgress) < keysInProgress {
			next, _ := iter.Pull(func(yield func(struct{}) bool) {
				if err := s.create(t.Context(), c, func() bool { return yield(struct{}{}) }); err != nil {
					t.Error(err)
				}
			})
			next()
			p.creating = append(p.creating, next)
		}
		if len(p.creating) > 0 {
			i := s.IntN(len(p.creating))
			if _, ok := p.creating[i](); !ok {
				p.creating = slices.Delete(p.creating, i, i+1)
			}
		}
		if s.keys > s.limit {
			t.Fatalf("seed %d, step %d: got %d keys, want at most %d", seed, steps, s.keys, s.limit)
		}
	}
}
