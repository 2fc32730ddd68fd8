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

const clockStep = time.Hour

func machineFaults() []fault {
	ahead, back := int64(clockStep.Seconds()), -int64(clockStep.Seconds())
	return []fault{
		{
			name: "Clock one hour ahead", begin: stepTo(ahead), end: stepTo(0),
			cells: clockCells(
				cell{want: "default: proofs use the monotonic clock; a key that expires in 30 minutes is denied only during the fault", during: all(serves(ceiling+time.Second), revokesInTime, expiredIs(true)), after: expiredIs(false)},
				cell{want: "existing sessions work; a session issued during the fault is rejected afterwards", during: signsInAhead, after: aheadIsRefused},
			),
		},
		{
			name: "Clock one hour behind", begin: stepTo(back), end: stepTo(0),
			cells: clockCells(
				cell{during: all(serves(ceiling+time.Second), revokesInTime)},
				cell{want: "existing sessions get 401, not yet valid; a new session works", during: signedInAgain},
			),
		},
		{
			name: "Log disk full", begin: fillLogs, end: emptyLogs,
			cells: [surfaces]cell{
				gate:       {want: "default; nothing is logged", during: all(serves(3*time.Second), revokesInTime, nothingLogged("checker-0", "checker-1"))},
				management: {during: all(manages, nothingLogged("keys"))},
				webhook:    {during: all(hooks, nothingLogged("webhook")), after: hooksAgain},
				deploys:    {during: all(deploysNow, nothingLogged("deploys"))},
				rollup:     {during: all(rolls, nothingLogged("rollup"))},

				acknowledgement: confirmed(),
			},
		},
	}
}

func clockCells(g, m cell) [surfaces]cell {
	return [surfaces]cell{
		gate: g, management: m,
		webhook: {during: hooks, after: hooksAgain},
		deploys: {want: "default; revision numbers continue", during: deploysNow},
		rollup:  {during: rolls},

		acknowledgement: confirmed(),
	}
}

// stepTo changes the functions' wall clock. Near midnight, counts of another day may be reported
// only on that day.
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
			x.signIn(x.t) // later trials need a session
		}
	}
}

func expiredIs(expired bool) func(*trial) {
	return func(x *trial) {
		want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusOK}[expired]
		x.Call("hello").Key(x.expiring).Within(ceiling).Gets(want)
	}
}

// signedInAgain checks that an earlier session is rejected and a new one accepted.
func signedInAgain(x *trial) {
	again := x.token
	x.token = x.before
	r := x.createKey("early " + x.fault)
	x.gets("create a key with an earlier session", r, http.StatusUnauthorized, "unauthenticated")
	x.token = again
	manages(x)
}

// signsInAhead signs in while the clock is ahead. Later, aheadIsRefused expects that the session
// is rejected until its issue time.
func signsInAhead(x *trial) {
	manages(x)
	ahead := *x.scene
	ahead.signIn(x.t)
	x.gets("create a key", ahead.createKey("ahead"), http.StatusCreated, "")
	*x.ahead = ahead.token
}

func aheadIsRefused(x *trial) {
	now := *x.scene
	now.token = *x.ahead
	x.gets("create a key with a session from the future", now.createKey("ahead"), http.StatusUnauthorized, "unauthenticated")
}

// fillLogs limits the size of files by a limit of the kernel. The only files that functions write
// are logs.
func fillLogs(x *trial) {
	x.logged = map[string]int64{}
	x.limitLogs(1)
	for name := range loggers() {
		x.logged[name] = logSize(x, name)
	}
}

func emptyLogs(x *trial) { x.limitLogs(unix.RLIM_INFINITY) }

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

// nothingLogged checks that the fault is effective.
func nothingLogged(names ...string) func(*trial) {
	return func(x *trial) {
		for _, name := range names {
			if size := logSize(x, name); size != x.logged[name] {
				x.t.Errorf("%s: got %d logged bytes during the fault, want 0", name, size-x.logged[name])
			}
		}
	}
}
