package contract

import (
	"net/http"
	"os/exec"
	"slices"
	"testing"
	"time"
)

const (
	starts = 5 // of each program in a round
	rounds = 4 // at most, since other programs can disturb a round

	// startLimit is the highest median time from exec to the first response. It is far above
	// what "make bench" requires, because here other tests use the machine too.
	startLimit = 300 * time.Millisecond

	// calmStart is what a program that does nothing needs at most on a machine with
	// nothing else to do, the copying of its pages included. Where it takes longer, all
	// do, and the limit grows by as much.
	calmStart = 20 * time.Millisecond
)

// TestStart measures from the start of a function's process to its first answer. It
// runs before the parallel tests.
func TestStart(t *testing.T) {
	for _, function := range functions() {
		t.Run(function, func(t *testing.T) {
			s := settings(t, function)
			for round := 1; ; round++ {
				bare, own := median(starts, func() time.Duration { return startBare(t) }), median(starts, func() time.Duration { return startOnce(t, function, s) })
				bound := max(startLimit, time.Duration(float64(startLimit)*float64(bare)/float64(calmStart)))
				t.Logf("first answer after %v, %.1f times that of a bare HTTP server (%v); limit %v", own, float64(own)/float64(bare), bare, bound)
				if own < bound {
					return
				}
				if round == rounds {
					t.Fatal("starts too slowly")
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

// startOnce is the time to a function's first answer. The checker's first is its probe's:
// it lets nobody through until its view is proven. The first call of wiring and rollup is
// a tick, a dozen calls of the store and the cluster one after the other; what a second
// one takes is no part of the start.
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
