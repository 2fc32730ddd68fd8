package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/sluicegate/sluice/tests/bench/load"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const (
	turnsByDefault = 20
	fewestTurns    = 9
	shortWindow    = 200 * time.Millisecond
	repeats        = 8 // loads of each server in a turn
)

type suite struct {
	pkg, bench, benchtime string
	count                 int
	rows                  []speedRow
}

// speedRow is a row of the comparison.
type speedRow struct {
	bench, unit string // of the benchmark's output
	name        string // of the row
	format      string // e.g. "%.0f ns"
	rate        bool   // a larger value is faster
}

// suites contains the benchmarks without HTTP. Creating 1,000,000 keys takes most of the time.
func suites() []suite {
	const checker = "./functions/checker"
	return []suite{
		{checker + "/internal/gate", "^BenchmarkDecide$/^keys=(1000|1000000)$", "100000x", 15, []speedRow{
			{bench: "Decide/keys=1000/hot", unit: "ns/op", name: "decision, one key of 1,000", format: "%.0f ns"},
			{bench: "Decide/keys=1000/random", unit: "ns/op", name: "decision, random keys of 1,000", format: "%.0f ns"},
			{bench: "Decide/keys=1000000/hot", unit: "ns/op", name: "decision, one key of 1,000,000", format: "%.0f ns"},
			{bench: "Decide/keys=1000000/random", unit: "ns/op", name: "decision, random keys of 1,000,000", format: "%.0f ns"},
		}},
		{checker, "^BenchmarkContended$", "5000000x", 1, []speedRow{
			{bench: "Contended", unit: "ns/op", name: "check in process, two processors, one key of 1,000,000", format: "%.0f ns"},
		}},
		{checker, "^BenchmarkSpans$/^off$", "500x", 10, []speedRow{
			{bench: "Spans/off", unit: "check-ns", name: "check in process, 1,000 keys", format: "%.0f ns"},
		}},
		{checker + "/internal/view", "^BenchmarkChange$", "500x", 10, []speedRow{
			{bench: "Change/create", unit: "ns/op", name: "key created in a view of 1,000,000", format: "%.0f ns"},
			{bench: "Change/revoke", unit: "ns/op", name: "key revoked in a view of 1,000,000", format: "%.0f ns"},
			{bench: "Change/plan", unit: "ns/op", name: "plan changed in a view of 1,000,000", format: "%.0f ns"},
		}},
		{"./functions/rollup", "^BenchmarkRollup$", "1x", 8, []speedRow{
			{bench: "Rollup", unit: "keys/s", name: "rollup of 100,000 keys", format: "%.0f keys/s", rate: true},
		}},
		{checker + "/internal/meter", "^BenchmarkFlush$", "5x", 15, []speedRow{
			{bench: "Flush", unit: "ns/op", name: "flush of 100,000 keys", format: "%.0f ns"},
		}},
	}
}

type side struct {
	root, programs string
}

// contest compares two trees in turns.
type contest struct {
	ctx    context.Context //nolint:containedctx // Tests own it.
	sides  [2]side
	wanted *regexp.Regexp
	rows   []speedRow
	values map[string]*[2][]float64
	absent []string // one tree lacks them
}

// TestAgainst compares this tree with the commit SLUICE_AGAINST. SLUICE_TURNS is the number of
// turns, and SLUICE_ROWS a pattern of rows.
func TestAgainst(t *testing.T) {
	commit := os.Getenv("SLUICE_AGAINST")
	if commit == "" {
		t.Skip("make bench AGAINST=COMMIT runs it")
	}
	turns := turnsByDefault
	if text := os.Getenv("SLUICE_TURNS"); text != "" {
		var err error
		if turns, err = strconv.Atoi(text); err != nil || turns < fewestTurns {
			t.Fatalf("SLUICE_TURNS is %[2]q; it must be a number of at least %[1]d", fewestTurns, text)
		}
	}
	wanted, err := regexp.Compile(os.Getenv("SLUICE_ROWS"))
	if err != nil {
		t.Fatalf("SLUICE_ROWS: %v", err)
	}
	root, err := filepath.Abs("../..")
	check.OK(t, err)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &contest{ctx: ctx, wanted: wanted, values: map[string]*[2][]float64{}, sides: [2]side{
		{stacktest.Checkout(t, commit), t.TempDir()}, {root, t.TempDir()},
	}}
	all := c.build(t)
	program := c.targets(t)
	for turn := range turns {
		began := time.Now()
		for _, s := range all {
			c.inProcess(t, s, turn)
		}
		if program != "" {
			t.Run(fmt.Sprintf("turn %d over HTTP", turn+1), func(t *testing.T) { c.overHTTP(t, program, turn) })
		}
		if t.Failed() || ctx.Err() != nil {
			t.Fatalf("turn %d failed: %v", turn+1, context.Cause(ctx))
		}
		fmt.Printf("turn %d of %d: %.0f s\n", turn+1, turns, time.Since(began).Seconds())
	}
	c.print(os.Stdout, commit)
}

func (c *contest) build(t *testing.T) []suite {
	t.Helper()
	var all []suite
	for _, s := range suites() {
		var rows []speedRow
		for _, r := range s.rows {
			if c.wanted.MatchString(r.name) {
				rows = append(rows, r)
			}
		}
		if s.rows = rows; len(rows) > 0 && c.builds(t, rows, "test", "-c", s.pkg) {
			all = append(all, s)
		}
	}
	return all
}

func (c *contest) builds(t *testing.T, rows []speedRow, args ...string) bool {
	t.Helper()
	pkg := args[len(args)-1]
	for i := len(c.sides) - 1; i >= 0; i-- {
		args := append(append(args[:len(args)-1:len(args)-1], "-o", c.sides[i].program(pkg)), pkg)
		cmd := exec.CommandContext(c.ctx, "go", args...)
		cmd.Dir = c.sides[i].root
		if out, err := cmd.CombinedOutput(); err != nil && i == 1 {
			t.Fatalf("build %s: %v\n%s", pkg, err, out)
		} else if err != nil {
			fmt.Printf("the commit does not build %s: %v\n%s", pkg, err, out)
			for _, r := range rows {
				c.absent = append(c.absent, r.name)
			}
			return false
		}
	}
	c.rows = append(c.rows, rows...)
	return true
}

func (s side) program(pkg string) string {
	return filepath.Join(s.programs, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-"))
}

// inOrder alternates the order with each turn.
func inOrder(turn int, do func(i int)) {
	do(turn % 2)
	do(1 - turn%2)
}

func (c *contest) add(row string, i int, value float64) {
	if c.values[row] == nil {
		c.values[row] = &[2][]float64{}
	}
	c.values[row][i] = append(c.values[row][i], value)
}

// inProcess adds the fastest of the repeated results: other programs can only slow a benchmark
// down.
func (c *contest) inProcess(t *testing.T, s suite, turn int) {
	t.Helper()
	inOrder(turn, func(i int) {
		cmd := exec.CommandContext(c.ctx, c.sides[i].program(s.pkg),
			"-test.run=^$", "-test.bench="+s.bench, "-test.benchtime="+s.benchtime, "-test.count="+strconv.Itoa(s.count))
		cmd.Dir = filepath.Join(c.sides[i].root, s.pkg)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		seen := benchmarks(t, string(out))
		for _, r := range s.rows {
			if values := seen[r.bench][r.unit]; len(values) > 0 {
				c.add(r.name, i, r.fastest(values))
			}
		}
	})
}

func (r speedRow) fastest(values []float64) float64 {
	if r.rate {
		return slices.Max(values)
	}
	return slices.Min(values)
}

type site struct {
	name string
	keys int
	path string // returns 200 when ready
	env  []string
}

func sites() []site {
	all := []site{{name: "bare handler over HTTP", path: "/healthz", env: []string{"ROLE=bare"}}}
	for _, n := range []int{1_000, 1_000_000} {
		name := "check over HTTP, 1,000 keys"
		if n > 1_000 {
			name = "check over HTTP, 1,000,000 keys"
		}
		all = append(all, site{name: name, keys: n, path: "/readyz", env: []string{"ROLE=checker", fmt.Sprintf("KEYS=%d", n)}})
	}
	return all
}

func (s site) figures() []speedRow {
	return []speedRow{
		{name: s.name, format: "%.0f/s", rate: true},
		{name: s.name + ", the server's processor time", format: "%.1f µs"},
	}
}

const targetPackage = "./tests/bench/target"

// targets returns the package of the server, or "" if no row needs it or a tree lacks it.
func (c *contest) targets(t *testing.T) string {
	t.Helper()
	var rows []speedRow
	for _, s := range sites() {
		if c.wanted.MatchString(s.name) {
			rows = append(rows, s.figures()...)
		}
	}
	if len(rows) == 0 || !c.builds(t, rows, "build", "-buildvcs=false", targetPackage) {
		return ""
	}
	return targetPackage
}

// overHTTP loads the servers in the order A B B A. Each turn starts new servers, because speed
// depends on the memory layout.
func (c *contest) overHTTP(t *testing.T, pkg string, turn int) {
	t.Helper()
	for _, s := range sites() {
		if !c.wanted.MatchString(s.name) {
			continue
		}
		var at [2]target
		inOrder(turn, func(i int) { at[i] = start(t, c.sides[i].program(pkg), s.path, s.env...) })
		l := load.Load{Connections: connections, Head: checkHead, Keys: fulls(max(s.keys, 1)), For: shortWindow, Now: time.Now}
		var seen [2]run
		for round := range repeats + 1 {
			inOrder(turn+round, func(i int) {
				l.Address = at[i].address
				if r := seen[i].add(t, at[i], l); r.Statuses[http.StatusOK] != r.Requests {
					t.Fatalf("%s: want 200 for %d requests, got %v", s.name, r.Requests, r.Statuses)
				}
			})
		}
		rows := s.figures()
		for i := range seen { // round 0 warms up
			c.add(rows[0].name, i, median(seen[i].rates[1:]))
			c.add(rows[1].name, i, average(seen[i].cpu[1:]))
		}
	}
}

func average(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func (c *contest) print(w io.Writer, commit string) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "\nrow\t%s\tthis tree\tratio\t95%% interval\n", commit)
	turns := 0
	for _, r := range c.rows {
		v := c.values[r.name]
		if v == nil || len(v[0]) != len(v[1]) {
			c.absent = append(c.absent, r.name)
			continue
		}
		turns = len(v[0])
		ratio, low, high := interval(r.ratios(v))
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%.3f\t%.3f to %.3f\n", r.name, fmt.Sprintf(r.format, median(v[0])), fmt.Sprintf(r.format, median(v[1])), ratio, low, high)
	}
	_ = table.Flush()
	for _, name := range c.absent {
		_, _ = fmt.Fprintf(w, "Not compared, because one tree lacks the benchmark: %s\n", name)
	}
	_, _ = fmt.Fprintf(w, "\nA ratio above 1 means that this tree is faster. It is the geometric mean of %d turns, with Student's t interval.\n", turns)
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Fprintf(w, "Load average at the end: %s", text)
	}
}

// ratios returns the speed of this tree divided by the commit's, per turn.
func (r speedRow) ratios(values *[2][]float64) []float64 {
	if r.rate {
		return shares(values[1], values[0])
	}
	return shares(values[0], values[1])
}

func TestComparisonTable(t *testing.T) {
	t.Parallel()
	c := &contest{
		rows: []speedRow{
			{name: "check", format: "%.0f ns"},
			{name: "rollup", format: "%.0f keys/s", rate: true},
			{name: "flush", format: "%.0f ns"},
		},
		values: map[string]*[2][]float64{
			"check":  {{100, 100, 100, 100, 100, 100, 100, 100, 100}, {200, 200, 200, 200, 200, 200, 200, 200, 200}},
			"rollup": {{100, 200, 100, 200, 100, 200, 100, 200, 100}, {200, 100, 200, 100, 200, 100, 200, 100, 200}},
			"flush":  {{}, {5, 5, 5, 5, 5, 5, 5, 5, 5}},
		},
		absent: []string{"explain"},
	}
	var out strings.Builder
	c.print(&out, "v1")
	got, _, _ := strings.Cut(out.String(), "Load average")
	want := `
row     v1          this tree   ratio  95% interval
check   100 ns      200 ns      0.500  0.500 to 0.500
rollup  100 keys/s  200 keys/s  1.080  0.616 to 1.894
Not compared, because one tree lacks the benchmark: explain
Not compared, because one tree lacks the benchmark: flush

A ratio above 1 means that this tree is faster. It is the geometric mean of 9 turns, with Student's t interval.
`
	if strings.ReplaceAll(got, " \n", "\n") != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
