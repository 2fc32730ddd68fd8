// Package bench measures what Sluice promises about speed, and writes what it has
// seen into tests/load/RESULTS.md: make bench.
//
// What is compared runs in one go and takes turns (A B A B), since the machine's
// speed changes from minute to minute: ratios of medians say more than figures.
// Nothing is measured that real traffic would not do: keys are random, have a
// scope, a rate and a quota, and one of the runs has half of its requests refused.
package bench

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
)

// plots is how many the results have.
const plots = 5

// sizes are the numbers of keys that growth is shown at.
func sizes() []int { return []int{1_000, 10_000, 100_000, 1_000_000} }

// TestBench measures everything. SLUICE_BENCH=1 turns it on: it takes the whole
// machine for a quarter of an hour.
func TestBench(t *testing.T) {
	if os.Getenv("SLUICE_BENCH") == "" {
		t.Skip("make bench runs it")
	}
	root, err := filepath.Abs("../..")
	check.OK(t, err)
	b := &bench{root: root, began: time.Now()}
	whole := t.Run("in process", func(t *testing.T) { b.inProcess(t) })
	whole = t.Run("over HTTP", func(t *testing.T) { b.overHTTP(t) }) && whole
	whole = t.Run("on a stack", func(t *testing.T) { b.onStack(t) }) && whole
	whole = t.Run("a change in force", func(t *testing.T) { b.inForce(t) }) && whole
	whole = t.Run("cold start", func(t *testing.T) { b.coldStart(t) }) && whole
	for _, r := range b.rows {
		t.Logf("%-70s %-40s %s", r.what, r.figure, r.verdict())
	}
	if !whole || len(b.plots) != plots { // some were not asked for: -run
		t.Skip("the results are not written, since not everything was measured")
	}
	check.OK(t, b.write(filepath.Join(root, "tests", "load")))
}

// TestBenchmarksRun runs short benchmarks once each, so that a broken one is found early.
func TestBenchmarksRun(t *testing.T) {
	t.Parallel()
	long.Only(t)
	root, err := filepath.Abs("../..")
	check.OK(t, err)
	b := &bench{root: root}
	seen := b.gobench(t, "^Benchmark(Rollup|Flush|Change)$", "1x", 1,
		"./functions/rollup", "./functions/checker/internal/meter", "./functions/checker/internal/view")
	for _, name := range []string{"Rollup", "Flush", "Change/create", "Change/revoke", "Change/plan"} {
		if within(seen[name]["ns/op"], 0) || len(seen[name]["ns/op"]) == 0 {
			t.Errorf("%s: %v", name, seen[name])
		}
	}
}

// bench gathers what is measured.
type bench struct {
	root  string
	began time.Time
	rows  []row
	plots []plot
	notes []string
}

// row is a figure and what it was to reach.
type row struct {
	what, figure, bar string
	met               bool
}

func (r row) verdict() string {
	if r.met {
		return "reached"
	}
	return "not reached"
}

func (b *bench) row(what, figure, bar string, met bool) {
	b.rows = append(b.rows, row{what, figure, bar, met})
}

// spread writes the median of values and, where there are several, the lowest and the
// highest: "1.02 (0.98 to 1.05)". format is of one value.
func spread(format string, values []float64) string {
	text := fmt.Sprintf(format, median(values))
	if len(values) < 2 {
		return text
	}
	return text + fmt.Sprintf(" ("+format+" to "+format+")", slices.Min(values), slices.Max(values))
}

// shares are the ratios of what was measured in turns.
func shares(of, by []float64) []float64 {
	all := make([]float64, min(len(of), len(by)))
	for i := range all {
		all[i] = of[i] / by[i]
	}
	return all
}

// median of values; 0 of none.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
