package bench

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// gobench returns results by name and unit, e.g. "Decide/keys=1000/hot" and "ns/op".
func (b *bench) gobench(t *testing.T, names, benchtime string, count int, packages ...string) map[string]map[string][]float64 {
	t.Helper()
	args := []string{"test", "-run", "^$", "-bench", names, "-benchmem", "-benchtime", benchtime, "-count", strconv.Itoa(count)}
	cmd := exec.CommandContext(t.Context(), "go", append(args, packages...)...)
	cmd.Dir = b.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return benchmarks(t, string(out))
}

func benchmarks(t *testing.T, out string) map[string]map[string][]float64 {
	t.Helper()
	all := map[string]map[string][]float64{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := regexp.MustCompile(`-\d+$`).ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		if all[name] == nil {
			all[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all[name][fields[i+1]] = append(all[name][fields[i+1]], v)
		}
	}
	return all
}

func (b *bench) inProcess(t *testing.T) {
	t.Helper()
	const checker = "./functions/checker/"
	d := b.gobench(t, "^BenchmarkDecide$", "500000x", 5, checker+"internal/gate")
	hot, random := d["Decide/keys=1000000/hot"], d["Decide/keys=1000000/random"]
	b.row("decision for one key of 1,000,000, in process", ns(hot), "250 ns, 0 allocations", free(hot, 250))
	b.row("decision for random keys of 1,000,000, in process", ns(random), "700 ns, 0 allocations", free(random, 700))
	growth := plot{title: "Decision for a random key", unit: "ns"}
	for _, n := range sizes() {
		growth.points = append(growth.points, point{n, median(d[fmt.Sprintf("Decide/keys=%d/random", n)]["ns/op"])})
	}
	b.plots = append(b.plots, growth)

	c := b.gobench(t, "^BenchmarkContended$", "500000x", 5, checker)
	b.row("check with rate, quota and counting, two processors and one key", ns(c["Contended"]), "250 ns, 0 allocations",
		free(c["Contended"], 250))

	s := b.gobench(t, "^BenchmarkSpans$", "2000x", 5, checker)
	b.row("check without span export, compared with one without span support", spread("%.2f times", s["Spans/off"]["ratio"]), "1.05 times",
		within(s["Spans/off"]["ratio"], 1.05))
	b.note("A check in process takes %s without spans. It takes %s with spans of unsampled traces, and %s with spans of sampled traces.",
		spread("%.0f ns", s["Spans/off"]["check-ns"]), spread("%.0f ns", s["Spans/unsampled"]["check-ns"]), spread("%.0f ns", s["Spans/sampled"]["check-ns"]))

	g := b.gobench(t, "^BenchmarkCollect$", "100x", 5, checker)
	cpu := scaled(g["Collect/keys=1000000"]["cpu-ns/op"], 1e-6)
	b.row("garbage collection of a checker with 1,000,000 keys, total time of two processors", spread("%.1f ms", cpu), "2 ms", within(cpu, 2))

	b.note("Garbage collection with 1,000 keys, which measures the other data of a checker: %s.",
		spread("%.1f ms", scaled(g["Collect/keys=1000"]["cpu-ns/op"], 1e-6)))

	v := b.gobench(t, "^BenchmarkChange$", "2000x", 3, checker+"internal/view")
	for _, change := range []struct {
		name, what string
		bar        float64 // ms
	}{{"create", "creation of a key", 1}, {"revoke", "revocation of a key", 1}, {"plan", "change of the plan of all keys", 50}} {
		us := scaled(v["Change/"+change.name]["ns/op"], 1e-3)
		b.row(change.what+" in a view of 1,000,000 keys", spread("%.1f µs", us), fmt.Sprintf("%g ms", change.bar), within(us, 1000*change.bar))
	}

	r := b.gobench(t, "^BenchmarkRollup$", "3x", 3, "./functions/rollup")
	rate := r["Rollup"]["keys/s"]
	b.row("rollup of one day of 100,000 keys, without the store", spread("%.0f keys/s", rate), "20,000 keys/s", median(rate) >= 20_000)
	f := b.gobench(t, "^BenchmarkFlush$", "3x", 3, checker+"internal/meter")
	docs := f["Flush"]["documents/op"]
	took := scaled(f["Flush"]["ns/op"], 1e-6)
	b.row("flush of 100,000 active keys", spread("%.0f documents", docs)+", "+spread("%.1f ms", took), "64 documents", within(docs, 64))
}

// within reports whether the median is at most bar. It is false without values.
func within(values []float64, bar float64) bool { return len(values) > 0 && median(values) <= bar }

// free reports whether the median is at most bar nanoseconds, without allocations.
func free(m map[string][]float64, bar float64) bool {
	return within(m["ns/op"], bar) && slices.Max(m["allocs/op"]) == 0
}

func ns(m map[string][]float64) string {
	return spread("%.0f ns", m["ns/op"]) + fmt.Sprintf(", %.0f allocations", slices.Max(m["allocs/op"]))
}

func scaled(values []float64, by float64) []float64 {
	all := make([]float64, len(values))
	for i, v := range values {
		all[i] = v * by
	}
	return all
}
