package rollout

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// window is how long clients may get the proxy's bare 500 after the end of the last
// checker: looks, the stand-in's probe, and much for a busy machine. It is a second
// or so when nothing else runs.
const window = 15 * time.Second

// TestBothCheckersDown kills both checkers under load: nothing is allowed from then
// on, clients soon get the gate's own 503, and are served again when the checkers
// are back.
func TestBothCheckersDown(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	s.Call("hello").Key(k).Path("/status/500").Gets(http.StatusInternalServerError)
	y := begin(t, s, "hello", k)
	y.goOn(time.Second)
	killing := time.Now()
	each(t, world.Kill)
	killed := time.Now()
	first := y.until("a 503 of the gate", killed, func(a answer) bool { return a.code == "gate_unavailable" })
	// A page sees the denial, since its preflight passes.
	s.Call("hello").Method(http.MethodOptions).Header("Origin", "https://shop.example").Header("Access-Control-Request-Method", "GET").
		Within(5 * time.Second).Gets(http.StatusOK)
	y.goOn(3 * time.Second)
	back := time.Now()
	each(t, func(name string) error { return world.Restart(t.Context(), name) })
	ready := time.Now()
	y.until("a 200", back, func(a answer) bool { return a.key != "" && a.status == http.StatusOK })
	y.goOn(3 * time.Second)
	answers := y.stop()

	for _, a := range answers {
		if a.status == http.StatusOK && (a.key == "" || a.begin.After(killed) && a.end.Before(back)) {
			t.Errorf("a request was allowed %v after the kill, key %q", a.begin.Sub(killed), a.key)
		}
		if a.code == "gate_unavailable" {
			complete(t, a)
		}
		if a.bare() && (a.begin.Before(killing.Add(-time.Second)) || a.end.After(killed.Add(window))) {
			t.Errorf("the proxy's own %d %v after the kill", a.status, a.begin.Sub(killed))
		}
	}
	report(t, answers, killing, killed, first.begin, back, ready)
}

// slowest is the longest time that a request may take while checkers hang: three failed
// probes, the grace period, and a margin for a busy machine.
const slowest = 10 * time.Second

// TestHungCheckers stops both checkers under load. Their liveness probes end them, so no
// request waits for the ingress's own 30 s, and clients are served again (promise O12).
func TestHungCheckers(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	t.Cleanup(func() { each(t, func(name string) error { return world.Signal(name, syscall.SIGCONT) }) })
	y := begin(t, s, "hello", k)
	y.goOn(time.Second)
	each(t, func(name string) error { return world.Signal(name, syscall.SIGSTOP) })
	hung := time.Now()
	served := y.until("a 200", hung, func(a answer) bool { return a.status == http.StatusOK })
	y.goOn(time.Second)
	var longest time.Duration
	for _, a := range y.stop() {
		took := a.end.Sub(a.begin)
		longest = max(longest, took)
		if a.status == http.StatusOK && a.key == "" || took > slowest {
			t.Errorf("%v after the signal: key %q got %d %s after %v", a.begin.Sub(hung), a.key, a.status, a.code, took)
		}
	}
	t.Logf("the slowest request took %v; served again after %v", longest.Round(time.Millisecond), served.end.Sub(hung).Round(time.Millisecond))
}

// each does something to both checkers at once.
func each(t *testing.T, do func(name string) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, name := range []string{"checker-0", "checker-1"} {
		wg.Go(func() {
			if err := do(name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// complete checks that a denial has all that the checkers' own has.
func complete(t *testing.T, a answer) {
	t.Helper()
	want := map[string]string{
		"Content-Type": "application/json", "Retry-After": "10", "Access-Control-Allow-Origin": "*",
		"Access-Control-Expose-Headers": "Retry-After", "Vary": "Origin", "Cache-Control": "no-store",
	}
	got := map[string]string{}
	for name := range want {
		got[name] = a.header.Get(name)
	}
	if diff := cmp.Diff(want, got); diff != "" || a.status != http.StatusServiceUnavailable {
		t.Errorf("status %d, headers (-want +got):\n%s", a.status, diff)
	}
}

// report tells what clients saw.
func report(t *testing.T, answers []answer, killing, killed, first, back, ready time.Time) {
	t.Helper()
	var bare, denied, late int
	var lastBare, lastDenied time.Time
	for _, a := range all(answers, killing.Add(-time.Second), time.Now()) {
		switch {
		case a.bare():
			bare++
			lastBare = a.end
		case a.code == "gate_unavailable":
			denied++
			lastDenied = a.end
			if a.begin.After(ready) {
				late++
			}
		}
	}
	t.Logf("at %d requests a second: %d bare answers of the proxy, the last one %v after the kill; the first 503 of the gate after %v, %d of them",
		perSecond, bare, lastBare.Sub(killed).Round(time.Millisecond), first.Sub(killed).Round(time.Millisecond), denied)
	t.Logf("the checkers were ready again %v after their restart; %d denials after that, the last one %v later",
		ready.Sub(back).Round(time.Millisecond), late, max(0, lastDenied.Sub(ready)).Round(time.Millisecond))
}
