// Package bench measures the speed that Sluice promises, and writes tests/load/RESULTS.md ("make
// bench").
//
// Compared measurements alternate (A B A B), because the speed of the machine varies. Ratios of
// medians are therefore more reliable than absolute values. Keys are random and have a scope, a
// rate and a quota.
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

const plots = 5

func sizes() []int { return []int{1_000, 10_000, 100_000, 1_000_000} }

// TestBench uses the whole machine for 15 minutes, so it needs SLUICE_BENCH=1.
func TestBench(t *testing.T) {
	if os.Getenv("SLUICE_BENCH") == "" {
		t.Skip("runs only in make bench")
	}
	root, err := filepath.Abs("../..")
	check.OK(t, err)
	b := &bench{root: root, began: time.Now()}
	whole := t.Run("in process", func(t *testing.T) { b.inProcess(t) })
	whole = t.Run("over HTTP", func(t *testing.T) { b.overHTTP(t) }) && whole
	whole = t.Run("on a stack", func(t *testing.T) { b.onStack(t) }) && whole
	whole = t.Run("propagation of a change", func(t *testing.T) { b.inForce(t) }) && whole
	whole = t.Run("cold start", func(t *testing.T) { b.coldStart(t) }) && whole
	for _, r := range b.rows {
		t.Logf("%-70s %-40s %s", r.what, r.figure, r.verdict())
	}
	if !whole || len(b.plots) != plots { // -run excluded some measurements
		t.Skip("the results are not written, because some measurements are missing")
	}
	check.OK(t, b.write(filepath.Join(root, "tests", "load")))
}

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
			t.Errorf("%s: got %v, want a duration", name, seen[name])
		}
	}
}

type bench struct {
	root  string
	began time.Time
	rows  []row
	plots []plot
	notes []string
}

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

// spread formats the median, minimum and maximum: "1.02 (0.98 to 1.05)".
func spread(format string, values []float64) string {
	text := fmt.Sprintf(format, median(values))
	if len(values) < 2 {
		return text
	}
	return text + fmt.Sprintf(" ("+format+" to "+format+")", slices.Min(values), slices.Max(values))
}

// shares returns the ratio of each pair of measurements.
func shares(of, by []float64) []float64 {
	all := make([]float64, min(len(of), len(by)))
	for i := range all {
		all[i] = of[i] / by[i]
	}
	return all
}

// median returns 0 without values.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
