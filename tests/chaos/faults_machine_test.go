package chaos

import (
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// clockStep is how far the clock jumps.
const clockStep = time.Hour

// machineFaults are those of the machines that the functions run on.
func machineFaults() []fault {
	ahead, back := int64(clockStep.Seconds()), -int64(clockStep.Seconds())
	return []fault{
		{
			name: "clock stepped forward by an hour", begin: stepTo(ahead), end: stepTo(0),
			cells: clockCells(
				cell{must: "serves: proofs are measured by the monotonic clock; a revocation acts; a key that expires in half an hour is refused while the clock is ahead", during: all(serves(ceiling+time.Second), revokesInTime, expiredIs(true)), after: expiredIs(false)},
				cell{must: "works, with the sessions of before; a session issued while the clock is ahead is refused when it is set right", during: signsInAhead, after: aheadIsRefused},
			),
		},
		{
			name: "clock stepped back by an hour", begin: stepTo(back), end: stepTo(0),
			cells: clockCells(
				cell{must: "serves, and a revocation acts", during: all(serves(ceiling+time.Second), revokesInTime)},
				cell{must: "sessions from before the step are not yet valid: 401; after signing in again it works", during: signedInAgain},
			),
		},
		{
			name: "disk full for logs", begin: fillLogs, end: emptyLogs,
			cells: [surfaces]cell{
				gate:       {must: "serves, and a revocation acts; no line is logged", during: all(serves(3*time.Second), revokesInTime, nothingLogged("checker-0", "checker-1"))},
				management: {must: "works", during: all(manages, nothingLogged("keys"))},
				webhook:    {must: "deploys", during: all(hooks, nothingLogged("webhook")), after: hooksAgain},
				deploys:    {must: "goes live", during: all(deploysNow, nothingLogged("deploys"))},
				rollup:     {must: "runs; no count is lost", during: all(rolls, nothingLogged("rollup"))},

				acknowledgement: followed(),
			},
		},
	}
}

func clockCells(g, m cell) [surfaces]cell {
	return [surfaces]cell{
		gate: g, management: m,
		webhook: {must: "deploys; a delivery from before the step is known after it", during: hooks, after: hooksAgain},
		deploys: {must: "goes live; revisions are numbered on", during: deploysNow},
		rollup:  {must: "runs; no count is lost", during: rolls},

		acknowledgement: followed(),
	}
}

// stepTo sets the functions' wall clock off. Within that of midnight the counts of
// another day may come to be known only when the report gets there.
func stepTo(seconds int64) func(*trial) {
	return func(x *trial) {
		if day := time.Now().UTC(); seconds != 0 && day.Truncate(24*time.Hour) != day.Add(time.Duration(seconds)*time.Second).Truncate(24*time.Hour) {
			*x.lost = 1 << 30
		}
		if seconds != 0 {
			x.expiring = x.Key(wire.Plan{ID: x.plan}, func(k *wire.CreateKey) {
				at := time.Now().Add(clockStep / 2).UTC().Format(time.RFC3339)
				k.ExpiresAt = &at
			})
			x.Call("hello").Key(x.expiring).Within(30 * time.Second).Gets(http.StatusOK)
		}
		clock.Store(seconds)
		x.before = x.token
		if seconds < 0 {
			x.signIn(x.t) // what management looks at; the others need a session
		}
	}
}

// expiredIs: the key that expires in half an hour is refused or not.
func expiredIs(expired bool) func(*trial) {
	return func(x *trial) {
		want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusOK}[expired]
		x.Call("hello").Key(x.expiring).Within(ceiling).Gets(want)
	}
}

// signedInAgain: the session from before the step back is refused, the new one is
// good.
func signedInAgain(x *trial) {
	again := x.token
	x.token = x.before
	r := x.createKey("early " + x.fault)
	x.gets("make a key with a session of before", r, http.StatusUnauthorized, "unauthenticated")
	x.token = again
	manages(x)
}

// signsInAhead: a session that was issued while the clock was ahead is refused when
// it is not any more, until its time has come.
func signsInAhead(x *trial) {
	manages(x)
	ahead := *x.scene
	ahead.signIn(x.t)
	x.gets("make a key", ahead.createKey("ahead"), http.StatusCreated, "")
	*x.ahead = ahead.token
}

func aheadIsRefused(x *trial) {
	now := *x.scene
	now.token = *x.ahead
	x.gets("make a key with a session from ahead", now.createKey("ahead"), http.StatusUnauthorized, "unauthenticated")
}

// fillLogs lets no function's log grow any more: the kernel refuses to write beyond
// the size that a file may have. Logs are the only files that functions write.
func fillLogs(x *trial) {
	x.logged = map[string]int64{}
	x.limitLogs(1)
	for name := range loggers() {
		x.logged[name] = logSize(x, name)
	}
}

func emptyLogs(x *trial) { x.limitLogs(unix.RLIM_INFINITY) }

// limitLogs sets the soft limit of what files functions may write, in bytes.
func (x *trial) limitLogs(size uint64) {
	x.t.Helper()
	for name, pid := range loggers() {
		var limit unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
			x.t.Fatalf("%s: %v", name, err)
		}
		limit.Cur = min(size, limit.Max)
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			x.t.Fatalf("%s: %v", name, err)
		}
	}
}

// loggers are the functions' processes.
func loggers() map[string]int {
	pids := world.Info().PIDs
	for _, other := range []string{"stack", "firestore", "etcd", "kube-apiserver", "traefik", "workloads", "build-system"} {
		delete(pids, other)
	}
	return pids
}

func logSize(x *trial, name string) int64 {
	x.t.Helper()
	info, err := os.Stat(filepath.Join(world.Info().LogsDir, name+".log"))
	check.OK(x.t, err)
	return info.Size()
}

// nothingLogged makes sure that the fault was there.
func nothingLogged(names ...string) func(*trial) {
	return func(x *trial) {
		for _, name := range names {
			if size := logSize(x, name); size != x.logged[name] {
				x.t.Errorf("%s has logged %d bytes to a full disk", name, size-x.logged[name])
			}
		}
	}
}
