// Package chaos takes a stack's document store and checkers away, in every
// way in which a network and an operator can, and looks at what clients see
// (specification sections 1, 3.3 and 7). It has a stack to itself.
package chaos

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// ceiling is the replicas' here, lowered so that tests run in seconds.
const ceiling = 6 * time.Second

// The stack's ports begin at portBase; the checkers reach the store, at
// portBase+1, through a network at storePort that tests can cut.
const (
	portBase  = 20380
	storePort = "127.0.0.1:20379"
)

var (
	world   *stack.Stack
	between *network
)

func TestMain(m *testing.M) {
	os.Exit(stacktest.Main(m, func(_ string, o *stack.Options) (err error) {
		between, err = newNetwork(storePort, "127.0.0.1:"+strconv.Itoa(portBase+1))
		o.PortBase = portBase
		o.Env = map[string]map[string]string{"checker": {
			"MAX_STALENESS": ceiling.String(), "CANARY_INTERVAL": "1s", "FIRESTORE_EMULATOR_HOST": storePort,
		}}
		return err
	}, func(s *stack.Stack) { world = s }))
}

// watch asks both replicas all the time and notes any request that was allowed
// after a moment from which on none may be.
type watch struct {
	notAfter atomic.Int64 // Unix nanoseconds; 0 is no bound yet
	asked    atomic.Int64
	late     atomic.Int64
	stop     context.CancelFunc
	done     chan struct{}
}

func startWatch(t *testing.T, replicas []stacktest.Replica, namespace, key string) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, r := range replicas {
				begin := time.Now()
				a, err := r.Check(ctx, namespace, "hello", key)
				if err != nil {
					continue
				}
				w.asked.Add(1)
				if bound := w.notAfter.Load(); a.Status == http.StatusOK && bound != 0 && begin.UnixNano() > bound {
					w.late.Add(1)
				}
			}
			<-tick.C
		}
	}()
	return w
}

func (w *watch) end(t *testing.T) {
	t.Helper()
	w.stop()
	<-w.done
	if n := w.late.Load(); n != 0 {
		t.Errorf("%d of %d requests were allowed after the ceiling", n, w.asked.Load())
	}
	if w.asked.Load() == 0 {
		t.Error("the watch asked nothing")
	}
}

// TestStoreStopped stops the store with SIGSTOP: connections stay open, nothing answers.
func TestStoreStopped(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	s.App("open")
	k := s.AnyKey()
	replicas := stacktest.Replicas(t, world)
	for _, r := range replicas {
		r.Until(s, "hello", k.Full, http.StatusOK, 20*time.Second)
	}
	w := startWatch(t, replicas, s.Project+"-"+s.Env, k.Full)
	if err := world.Signal("firestore", syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	w.notAfter.Store(stopped.Add(ceiling).UnixNano())
	for _, r := range replicas {
		r.Until(s, "hello", k.Full, http.StatusServiceUnavailable, ceiling+2*time.Second)
	}
	t.Logf("both replicas deny %v after the store stopped (ceiling %v)", time.Since(stopped).Round(time.Millisecond), ceiling)
	a := s.Call("hello").Key(k).Gets(http.StatusServiceUnavailable, "gate_unavailable")
	if a.Header.Get("Retry-After") != "10" || a.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("headers %v", a.Header)
	}
	s.Call("hello").Gets(http.StatusServiceUnavailable, "gate_unavailable")
	s.Call("open").Gets(http.StatusOK)
	w.notAfter.Store(0)
	if err := world.Signal("firestore", syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	for _, r := range replicas {
		r.Until(s, "hello", k.Full, http.StatusOK, 60*time.Second)
	}
	t.Logf("both replicas serve again %v after the store went on", time.Since(back).Round(time.Millisecond))
	w.end(t)
}

// TestRevokedWhileCutOff stops one replica's process, revokes meanwhile, and
// lets it go on after the ceiling: not one request may pass on its old view.
func TestRevokedWhileCutOff(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	replicas := stacktest.Replicas(t, world)
	for _, r := range replicas {
		r.Until(s, "hello", k.Full, http.StatusOK, 20*time.Second)
	}
	if err := world.Signal("checker-0", syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	s.Revoke(k)
	replicas[1].Until(s, "hello", k.Full, http.StatusUnauthorized, 10*time.Second)
	wait(t, time.Until(paused.Add(ceiling+time.Second)))
	w := startWatch(t, replicas[:1], s.Project+"-"+s.Env, k.Full)
	w.notAfter.Store(1)
	if err := world.Signal("checker-0", syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	replicas[0].Until(s, "hello", k.Full, http.StatusUnauthorized, 30*time.Second)
	w.end(t)
}

// TestCheckersDown: a gated app is closed, an ungated one is not touched.
func TestCheckersDown(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	s.App("open")
	k := s.AnyKey()
	s.Call("hello").Key(k).Within(20 * time.Second).Gets(http.StatusOK)
	for _, name := range []string{"checker-0", "checker-1"} {
		if err := world.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	if a := s.Call("hello").Key(k).Send(); a.Status < 500 {
		t.Errorf("a gated app without checkers: %d %s", a.Status, a.Body)
	}
	if a := s.Call("hello").Send(); a.Status < 500 {
		t.Errorf("a gated app without checkers and key: %d %s", a.Status, a.Body)
	}
	s.Call("open").Gets(http.StatusOK)
	for _, name := range []string{"checker-0", "checker-1"} {
		if err := world.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	s.Call("hello").Key(k).Within(30 * time.Second).Gets(http.StatusOK)
}

// TestStoreKilled kills the store and starts it again, empty: the replicas deny
// after the ceiling, and afterwards they know that every key is gone. Run last:
// the emulator forgets everything.
func TestStoreKilled(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	replicas := stacktest.Replicas(t, world)
	for _, r := range replicas {
		r.Until(s, "hello", k.Full, http.StatusOK, 20*time.Second)
	}
	w := startWatch(t, replicas, s.Project+"-"+s.Env, k.Full)
	if err := world.Kill("firestore"); err != nil {
		t.Fatal(err)
	}
	w.notAfter.Store(time.Now().Add(ceiling).UnixNano())
	for _, r := range replicas {
		r.Until(s, "hello", k.Full, http.StatusServiceUnavailable, ceiling+2*time.Second)
	}
	if err := world.Restart(t.Context(), "firestore"); err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		r.Until(s, "hello", k.Full, http.StatusUnauthorized, 60*time.Second)
	}
	w.end(t)
}

// wait lets a fixed time pass that the test is about.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}
