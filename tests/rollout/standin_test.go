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

// window is the longest time after the kill in which the proxy may send its own 500: about a
// second, and a margin for a busy machine.
const window = 15 * time.Second

// TestBothCheckersDown kills both checkers. The gate soon denies with 503 until they are back.
func TestBothCheckersDown(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	s.Call("hello").Key(k).Path("/status/500").Gets(http.StatusInternalServerError)
	y := begin(t, s, "hello", k)
	y.runFor(time.Second)
	killing := time.Now()
	each(t, world.Kill)
	killed := time.Now()
	first := y.until("a 503 of the gate", killed, func(a answer) bool { return a.code == "gate_unavailable" })
	// A web page can read the denial because its preflight succeeds.
	s.Call("hello").Method(http.MethodOptions).Header("Origin", "https://shop.example").Header("Access-Control-Request-Method", "GET").
		Within(5 * time.Second).Gets(http.StatusOK)
	y.runFor(3 * time.Second)
	back := time.Now()
	each(t, func(name string) error { return world.Restart(t.Context(), name) })
	ready := time.Now()
	y.until("a 200", back, func(a answer) bool { return a.key != "" && a.status == http.StatusOK })
	y.runFor(3 * time.Second)
	answers := y.stop()

	for _, a := range answers {
		if a.status == http.StatusOK && (a.key == "" || a.begin.After(killed) && a.end.Before(back)) {
			t.Errorf("got 200 %v after the kill with key %q, want a denial", a.begin.Sub(killed), a.key)
		}
		if a.code == "gate_unavailable" {
			checkHeaders(t, a)
		}
		if a.bare() && (a.begin.Before(killing.Add(-time.Second)) || a.end.After(killed.Add(window))) {
			t.Errorf("got the proxy's own %d %v after the kill", a.status, a.begin.Sub(killed))
		}
	}
	report(t, answers, killing, killed, first.begin, back, ready)
}

// maxDuration is the longest time of a request while checkers hang: three failed probes, the grace
// period, and a margin for a busy machine.
const maxDuration = 10 * time.Second

// TestHungCheckers stops both checkers. Their liveness probes restart them, so that no request
// waits for the 30 s of the ingress (promise O12).
func TestHungCheckers(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	t.Cleanup(func() { each(t, func(name string) error { return world.Signal(name, syscall.SIGCONT) }) })
	y := begin(t, s, "hello", k)
	y.runFor(time.Second)
	each(t, func(name string) error { return world.Signal(name, syscall.SIGSTOP) })
	hung := time.Now()
	served := y.until("a 200", hung, func(a answer) bool { return a.status == http.StatusOK })
	y.runFor(time.Second)
	var longest time.Duration
	for _, a := range y.stop() {
		took := a.end.Sub(a.begin)
		longest = max(longest, took)
		if a.status == http.StatusOK && a.key == "" || took > maxDuration {
			t.Errorf("%v after the signal: key %q got %d %s after %v", a.begin.Sub(hung), a.key, a.status, a.code, took)
		}
	}
	t.Logf("the slowest request took %v; served again after %v", longest.Round(time.Millisecond), served.end.Sub(hung).Round(time.Millisecond))
}

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

// checkHeaders compares the headers of a denial with those of a checker.
func checkHeaders(t *testing.T, a answer) {
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
		t.Errorf("status: got %d, want 503; headers (-want +got):\n%s", a.status, diff)
	}
}

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
	t.Logf("at %d requests a second: %d responses of the proxy itself, the last one %v after the kill; first 503 of the gate after %v, %d in total",
		perSecond, bare, lastBare.Sub(killed).Round(time.Millisecond), first.Sub(killed).Round(time.Millisecond), denied)
	t.Logf("the checkers were ready again %v after their restart; %d denials after that, the last one %v later",
		ready.Sub(back).Round(time.Millisecond), late, max(0, lastDenied.Sub(ready)).Round(time.Millisecond))
}
