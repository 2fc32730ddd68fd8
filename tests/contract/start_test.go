package contract

import (
	"net/http"
	"os/exec"
	"slices"
	"testing"
	"time"
)

const (
	starts = 5
	rounds = 4 // repeated if other programs slow a round down

	// startLimit is the limit of the median time to the first response. It exceeds the limit of
	// "make bench", because other tests run too.
	startLimit = 300 * time.Millisecond

	// calmStart is the longest start of a minimal program on an idle machine. If it starts more
	// slowly, startLimit grows in proportion.
	calmStart = 20 * time.Millisecond
)

// TestStart runs before the parallel tests.
func TestStart(t *testing.T) {
	for _, function := range functions() {
		t.Run(function, func(t *testing.T) {
			s := settings(t, function)
			for round := 1; ; round++ {
				bare, own := median(starts, func() time.Duration { return startBare(t) }), median(starts, func() time.Duration { return startOnce(t, function, s) })
				bound := max(startLimit, time.Duration(float64(startLimit)*float64(bare)/float64(calmStart)))
				t.Logf("first response after %v, %.1f times that of a bare HTTP server (%v); limit %v", own, float64(own)/float64(bare), bare, bound)
				if own < bound {
					return
				}
				if round == rounds {
					t.Fatalf("median start: got %v, want less than %v", own, bound)
				}
			}
		})
	}
}

func startBare(t *testing.T) time.Duration {
	t.Helper()
	p := follow(t, exec.CommandContext(t.Context(), programs.bare)).ready(t)
	p.do(t, call{method: http.MethodGet, path: "/"})
	took := time.Since(p.started)
	_ = p.cmd.Process.Kill()
	p.end(t)
	return took
}

// startOnce returns the time to the first response. The checker's is a probe: it denies requests
// until its view is proven. For wiring and rollup, it subtracts the duration of a second tick.
func startOnce(t *testing.T, function string, s map[string]string) time.Duration {
	t.Helper()
	p := launch(t, function, s).ready(t)
	ask := func() { p.asks(t, function) }
	if function == "checker" {
		ask = func() { p.do(t, call{method: http.MethodGet, path: "/healthz"}) }
	}
	ask()
	first := time.Now()
	took := first.Sub(p.started)
	if function == "wiring" || function == "rollup" {
		ask()
		took -= time.Since(first)
	}
	_ = p.cmd.Process.Kill()
	p.end(t)
	return took
}

func median(n int, measure func() time.Duration) time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = measure()
	}
	slices.Sort(all)
	return all[n/2].Round(100 * time.Microsecond)
}
