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

// clusterFaults are those of the way to the API server and of the server itself.
func clusterFaults() []fault {
	cells := [surfaces]cell{
		gate:       {must: "serves: no request asks the API server, and the ingress keeps its routes; a revocation acts", during: all(serves(3*time.Second), revokesInTime)},
		management: {must: "plans and keys are managed as before", during: manages},
		webhook:    {must: "its token cannot be read: 503 unavailable, never 401; the delivery sent again deploys once", during: cannotHook, after: hooksAgain},
		deploys:    {must: "is recorded at once (202) and rolled out when the API server is back; what runs goes on", during: recordsOnly, after: rollsOutLater},
		rollup:     {must: "runs", during: rolls},

		acknowledgement: followed(),
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
			name:  "API server stalled without closing",
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
	x.note("recorded after %.1f s", r.took.Seconds())
}

func rollsOutLater(x *trial) {
	img := image(x.fault, "hand")
	x.Runs("byhand", img)
	x.once("byhand", img)
	x.note("ran %.1f s after the end", time.Since(x.ended).Seconds())
}

// checkerFaults are those of the replicas.
func checkerFaults() []fault {
	rest := [surfaces]cell{
		management: {must: "works", during: manages},
		webhook:    {must: "deploys", during: hooks, after: hooksAgain},
		deploys:    {must: "goes live", during: deploysNow},
		rollup:     {must: "runs; no count is lost", during: rolls},
	}
	with := func(g cell, counts string, silent ...int) [surfaces]cell {
		cells := rest
		cells[gate], cells[rollup].must, cells[acknowledgement] = g, counts, unheard(silent...)
		return cells
	}
	killed := "runs; lost is at most what the killed replica answered in its last flush interval (2 s)"
	return []fault{
		{
			name: "one checker killed",
			begin: func(x *trial) {
				x.kill("checker-0")
				x.losing(0)
			},
			end:   func(x *trial) { x.restart("checker-0") },
			cells: with(cell{must: "the other one serves; through the ingress too, once the broken connections are replaced (3 s at most); a revocation acts", during: oneServes}, killed, 0),
		},
		{
			name: "both checkers killed",
			begin: func(x *trial) {
				x.kill("checker-0", "checker-1")
				x.losing(0, 1)
			},
			end:   func(x *trial) { x.restart("checker-0", "checker-1") },
			cells: with(cell{must: "no request is allowed; clients soon get the gate's own 503 with its body; apps without a gate are not touched", during: closed}, killed, 0, 1),
		},
		{
			name:  "one checker paused and resumed after the ceiling",
			begin: pause0,
			end:   func(x *trial) { x.signal("checker-0", syscall.SIGCONT) },
			cells: with(cell{must: "the other one serves; resumed, the paused one allows nothing on its old view, not even what waited in its socket", during: pausedOne, after: allowsNothingOld}, rest[rollup].must, 0),
		},
		{
			name:  "network cut between one checker and the store",
			begin: func(x *trial) { toStore[1].stall(x.t) },
			end:   func(x *trial) { toStore[1].heal(x.t) },
			cells: with(cell{must: "the cut one denies with 503 from the ceiling on, the other one serves; clients of the ingress are denied for at most 1 s per new connection; a key revoked in the meantime is denied", during: cutOne}, rest[rollup].must, 0),
		},
	}
}

// losing counts what a replica that was just killed may have taken with it.
func (x *trial) losing(replicas ...int) {
	since := x.began.Add(-flushInterval - writeTime)
	for _, i := range replicas {
		*x.lost += uint64(x.traffic.replicas[i].count(since, time.Time{}, allowed))
		*x.forgot += uint64(x.traffic.metered[i].count(since, time.Time{}, allowed))
	}
	*x.lost += uint64(x.traffic.ingress.count(since, time.Time{}, allowed)) // whichever replica it asked
}

// settle is in what time the ingress has replaced broken connections; it takes a
// fraction of a second when the machine has nothing else to do.
const settle = 3 * time.Second

func oneServes(x *trial) {
	wait(x.t, settle)
	from := time.Now()
	x.revoke()
	wait(x.t, 3*time.Second)
	for _, y := range []*stream{x.traffic.replicas[1], x.traffic.ingress} {
		if asked, bad := y.count(from, time.Time{}, answer), y.count(from, time.Time{}, not(allowed)); asked == 0 || bad != 0 {
			x.t.Errorf("%s: %d of %d requests were not allowed", y.name, bad, asked)
		}
	}
	x.traffic.doomed[1].until(x.t, "refused", ceiling, denied(http.StatusUnauthorized, "invalid_key"))
	x.note("%d requests through the ingress failed in the first three seconds", x.traffic.ingress.count(x.began, x.began.Add(settle), not(allowed)))
}

func closed(x *trial) {
	killed := time.Now()
	a := x.Call("hello").Key(x.key).Within(30*time.Second).Gets(http.StatusServiceUnavailable, "gate_unavailable")
	if a.Header.Get("Retry-After") != "10" {
		x.t.Errorf("headers %v", a.Header)
	}
	from := time.Now()
	wait(x.t, 3*time.Second)
	y := x.traffic.ingress
	shut := denied(http.StatusServiceUnavailable, "gate_unavailable")
	if asked, other := y.count(from, time.Time{}, answer), y.count(from, time.Time{}, not(shut)); asked == 0 || other != 0 {
		x.t.Errorf("%d of %d requests did not get the gate's 503", other, asked)
	}
	if n := y.count(killed, time.Time{}, allowed); n != 0 {
		x.t.Errorf("%d requests were allowed", n)
	}
	x.note("the gate's 503 after %.1f s", y.firstSince(x.began, shut).Seconds())
}

// queued is how many requests wait in the paused replica's socket.
const queued = 100

// pause0 stops a replica's process, and then has requests written into a connection
// that it had: the kernel takes them, nobody reads them. Their key is revoked
// meanwhile.
func pause0(x *trial) {
	r := stacktest.Replicas(x.t, world)[0].Patient(time.Minute)
	namespace := x.Project + "-" + x.Env
	ask := func() (stacktest.Answer, error) { return r.Check(x.t.Context(), namespace, "hello", x.doomed.Full) }
	if a, err := ask(); err != nil || a.Status != http.StatusOK {
		x.t.Fatalf("before the pause: %d, %v", a.Status, err)
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

// stopped waits until each thread of a process stands still: a signal takes its time.
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

// pausedOne: while one replica is paused the other serves.
func pausedOne(x *trial) {
	x.traffic.doomed[1].until(x.t, "refused", ceiling, denied(http.StatusUnauthorized, "invalid_key"))
	wait(x.t, time.Until(x.there.Add(ceiling+2*time.Second)))
	from := time.Now()
	wait(x.t, time.Second)
	y := x.traffic.replicas[1]
	if asked, bad := y.count(from, time.Time{}, answer), y.count(from, time.Time{}, not(allowed)); asked == 0 || bad != 0 {
		x.t.Errorf("%s: %d of %d requests were not allowed", y.name, bad, asked)
	}
	y = x.traffic.ingress
	x.note("through the ingress %d of %d requests got through meanwhile", y.count(x.began, time.Time{}, allowed), y.count(x.began, time.Time{}, answer))
}

// allowsNothingOld: not one of the requests that waited was allowed, and most of
// them did wait until the replica went on.
func allowsNothingOld(x *trial) {
	x.waiting.Wait()
	close(x.answers)
	got := map[int]int{}
	for status := range x.answers {
		got[status]++
	}
	if got[http.StatusOK] != 0 || got[http.StatusServiceUnavailable]+got[http.StatusUnauthorized] < queued/2 {
		x.t.Errorf("answers to %d requests that waited, by status: %v", queued, got)
	}
	if n := x.traffic.doomed[0].count(x.ended, time.Time{}, allowed); n != 0 {
		x.t.Errorf("%d requests were allowed with the revoked key after the pause", n)
	}
	x.note("of %d requests that waited, 503: %d, 401: %d", queued, got[http.StatusServiceUnavailable], got[http.StatusUnauthorized])
}

// staleLife is the time for which a stale replica keeps a connection open.
const staleLife = time.Second

func cutOne(x *trial) {
	x.revoke()
	closes(0)(x)
	x.traffic.doomed[1].until(x.t, "refused", ceiling, denied(http.StatusUnauthorized, "invalid_key"))
	// The stale replica sends the proxy's connection away, so it comes to the other
	// one, sooner or later: each try may lead to either.
	from := time.Now()
	x.traffic.ingress.until(x.t, "allowed", 20*time.Second, allowed)
	x.note("the ingress found the other one after %.1f s", time.Since(from).Seconds())
	from = time.Now()
	wait(x.t, 2*time.Second)
	if bad := x.traffic.replicas[1].count(from, time.Time{}, not(allowed)); bad != 0 {
		x.t.Errorf("%s denied %d requests, want 0", x.traffic.replicas[1].name, bad)
	}
	// The proxy replaces its connection every 15 to 45 seconds. The new one can lead to the
	// stale replica, which closes it after staleLife.
	if got := x.traffic.ingress.longest(from, not(allowed)); got > staleLife+500*time.Millisecond {
		x.t.Errorf("the ingress denied requests for %v, want at most %v", got, staleLife)
	}
}
