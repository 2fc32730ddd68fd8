package chaos

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func clusterFaults() []fault {
	cells := [surfaces]cell{
		gate:       {want: "default; no request uses the API server, and the ingress keeps its routes", during: all(serves(3*time.Second), revokesInTime)},
		management: {during: manages},
		webhook:    {want: "503 unavailable, never 401: the token cannot be read; the call, sent again, deploys once", during: cannotHook, after: hooksAgain},
		deploys:    {want: "202 at once; running apps continue; the deployment becomes live after the fault", during: recordsOnly, after: rollsOutLater},
		rollup:     {during: rolls},

		acknowledgement: confirmed(),
	}
	return []fault{
		{
			name: "API server down",
			begin: func(x *trial) {
				toCluster.refuse(x.t)
				x.kill("kube-apiserver")
			},
			end: func(x *trial) {
				x.restart("kube-apiserver")
				toCluster.heal(x.t)
			},
			cells: cells,
		},
		{
			name:  "API server hangs",
			begin: func(x *trial) { toCluster.stall(x.t) },
			end:   func(x *trial) { toCluster.heal(x.t) },
			cells: cells,
		},
	}
}

func recordsOnly(x *trial) {
	r := x.deploy(image(x.fault, "hand"))
	x.gets("deploy", r, http.StatusAccepted, "")
	x.Call("byhand").Gets(http.StatusOK)
	x.note("stored after %.1f s", r.took.Seconds())
}

func rollsOutLater(x *trial) {
	img := image(x.fault, "hand")
	x.Runs("byhand", img)
	x.once("byhand", img)
	x.note("live %.1f s after the fault", time.Since(x.ended).Seconds())
}

func checkerFaults() []fault {
	rest := [surfaces]cell{
		management: {during: manages},
		webhook:    {during: hooks, after: hooksAgain},
		deploys:    {during: deploysNow},
		rollup:     {during: rolls},
	}
	with := func(g cell, counts string, silent ...int) [surfaces]cell {
		cells := rest
		cells[gate], cells[rollup].want, cells[acknowledgement] = g, counts, unconfirmed(silent...)
		return cells
	}
	killed := "default, except for requests of the last flush interval (2 s)"
	return []fault{
		{
			name: "One checker killed",
			begin: func(x *trial) {
				x.kill("checker-0")
				x.losing(0)
			},
			end:   func(x *trial) { x.restart("checker-0") },
			cells: with(cell{want: "the other checker allows requests, after 3 s also through the ingress; a revocation takes effect", during: oneServes}, killed, 0),
		},
		{
			name: "Both checkers killed",
			begin: func(x *trial) {
				x.kill("checker-0", "checker-1")
				x.losing(0, 1)
			},
			end:   func(x *trial) { x.restart("checker-0", "checker-1") },
			cells: with(cell{want: "no request is allowed; clients get the gate's own 503; apps without a gate are not affected", during: closed}, killed, 0, 1),
		},
		{
			name:  "One checker paused",
			begin: pause0,
			end:   func(x *trial) { x.signal("checker-0", syscall.SIGCONT) },
			cells: with(cell{want: "the other checker allows requests; after resuming, the paused one allows none based on its old view, not even queued requests", during: pausedOne, after: allowsNothingOld}, "", 0),
		},
		{
			name:  "One checker cut off from the store",
			begin: func(x *trial) { toStore[1].stall(x.t) },
			end:   func(x *trial) { toStore[1].heal(x.t) },
			cells: with(cell{want: "only the isolated checker denies, from the ceiling on; the ingress denies at most 1 s per new connection; the revoked key is denied", during: cutOne}, "", 0),
		},
	}
}

// losing adds the counts that killed replicas may have lost.
func (x *trial) losing(replicas ...int) {
	since := x.began.Add(-flushInterval - writeTime)
	for _, i := range replicas {
		*x.lost += uint64(x.traffic.replicas[i].count(since, time.Time{}, allowed))
		*x.forgot += uint64(x.traffic.metered[i].count(since, time.Time{}, allowed))
	}
	*x.lost += uint64(x.traffic.ingress.count(since, time.Time{}, allowed)) // from either replica
}

// settle is the time in which the ingress replaces broken connections.
const settle = 3 * time.Second

func oneServes(x *trial) {
	wait(x.t, settle)
	from := time.Now()
	x.revoke()
	wait(x.t, 3*time.Second)
	for _, y := range []*stream{x.traffic.replicas[1], x.traffic.ingress} {
		if asked, bad := y.count(from, time.Time{}, answer), y.count(from, time.Time{}, not(allowed)); asked == 0 || bad != 0 {
			x.t.Errorf("%s: got %d of %d requests not allowed, want 0", y.name, bad, asked)
		}
	}
	x.traffic.doomed[1].until(x.t, "denied", ceiling, denied(http.StatusUnauthorized, "invalid_key"))
	x.note("%d requests through the ingress failed in the first 3 s", x.traffic.ingress.count(x.began, x.began.Add(settle), not(allowed)))
}

func closed(x *trial) {
	killed := time.Now()
	a := x.Call("hello").Key(x.key).Within(30*time.Second).Gets(http.StatusServiceUnavailable, "gate_unavailable")
	if a.Header.Get("Retry-After") != "10" {
		x.t.Errorf("Retry-After: got %q, want 10", a.Header.Get("Retry-After"))
	}
	from := time.Now()
	wait(x.t, 3*time.Second)
	y := x.traffic.ingress
	shut := denied(http.StatusServiceUnavailable, "gate_unavailable")
	if asked, other := y.count(from, time.Time{}, answer), y.count(from, time.Time{}, not(shut)); asked == 0 || other != 0 {
		x.t.Errorf("got %d of %d responses other than the gate's 503, want 0", other, asked)
	}
	if n := y.count(killed, time.Time{}, allowed); n != 0 {
		x.t.Errorf("got %d allowed requests, want 0", n)
	}
	x.note("503 after %.1f s", y.firstSince(x.began, shut).Seconds())
}

const queued = 100

// pause0 stops a replica and sends requests on an existing connection, which the kernel queues.
// It then revokes their key.
func pause0(x *trial) {
	r := stacktest.Replicas(x.t, world)[0].Patient(time.Minute)
	namespace := x.Project + "-" + x.Env
	ask := func() (stacktest.Answer, error) { return r.Check(x.t.Context(), namespace, "hello", x.doomed.Full) }
	if a, err := ask(); err != nil || a.Status != http.StatusOK {
		x.t.Fatalf("before the pause: got %d, %v, want %d", a.Status, err, http.StatusOK)
	}
	x.signal("checker-0", syscall.SIGSTOP)
	x.stopped("checker-0")
	for range queued {
		x.waiting.Go(func() {
			a, err := ask()
			if err != nil {
				a.Status = 0
			}
			x.answers <- a.Status
		})
	}
	x.revoke()
}

func (x *trial) stopped(name string) {
	x.t.Helper()
	pid, err := world.Pid(name)
	check.OK(x.t, err)
	x.Until("stop", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			x.t.Fatalf("threads of %s: %v, %v", name, threads, err)
		}
		return !slices.ContainsFunc(threads, func(file string) bool {
			text, err := os.ReadFile(file)
			return err != nil || !strings.Contains(string(text), ") T ")
		})
	})
}

func pausedOne(x *trial) {
	x.traffic.doomed[1].until(x.t, "denied", ceiling, denied(http.StatusUnauthorized, "invalid_key"))
	wait(x.t, time.Until(x.there.Add(ceiling+2*time.Second)))
	from := time.Now()
	wait(x.t, time.Second)
	y := x.traffic.replicas[1]
	if asked, bad := y.count(from, time.Time{}, answer), y.count(from, time.Time{}, not(allowed)); asked == 0 || bad != 0 {
		x.t.Errorf("%s: got %d of %d requests not allowed, want 0", y.name, bad, asked)
	}
	y = x.traffic.ingress
	x.note("ingress: %d of %d requests allowed", y.count(x.began, time.Time{}, allowed), y.count(x.began, time.Time{}, answer))
}

// allowsNothingOld checks that no queued request was allowed and that most of them waited.
func allowsNothingOld(x *trial) {
	x.waiting.Wait()
	close(x.answers)
	got := map[int]int{}
	for status := range x.answers {
		got[status]++
	}
	if got[http.StatusOK] != 0 || got[http.StatusServiceUnavailable]+got[http.StatusUnauthorized] < queued/2 {
		x.t.Errorf("responses to %d queued requests by status: got %v, want none allowed and at least half denied", queued, got)
	}
	if n := x.traffic.doomed[0].count(x.ended, time.Time{}, allowed); n != 0 {
		x.t.Errorf("revoked key after the pause: got %d allowed requests, want 0", n)
	}
	x.note("%d queued requests: 503: %d, 401: %d", queued, got[http.StatusServiceUnavailable], got[http.StatusUnauthorized])
}

// staleLife is the time after which a replica with a stale view closes a connection.
const staleLife = time.Second

func cutOne(x *trial) {
	x.revoke()
	closes(0)(x)
	x.traffic.doomed[1].until(x.t, "denied", ceiling, denied(http.StatusUnauthorized, "invalid_key"))
	// The stale replica closes the proxy's connections; each new one may lead to either replica.
	from := time.Now()
	x.traffic.ingress.until(x.t, "allowed", 20*time.Second, allowed)
	x.note("ingress recovered after %.1f s", time.Since(from).Seconds())
	from = time.Now()
	wait(x.t, 2*time.Second)
	if bad := x.traffic.replicas[1].count(from, time.Time{}, not(allowed)); bad != 0 {
		x.t.Errorf("%s denied %d requests, want 0", x.traffic.replicas[1].name, bad)
	}
	// The proxy replaces its connection every 15 to 45 seconds.
	if got := x.traffic.ingress.longest(from, not(allowed)); got > staleLife+500*time.Millisecond {
		x.t.Errorf("the ingress denied requests for %v, want at most %v", got, staleLife)
	}
}
