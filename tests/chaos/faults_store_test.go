package chaos

import (
	"net/http"
	"syscall"
	"time"
)

// emptyStore is the fault that deletes all data.
const emptyStore = "Store restarted empty"

// storeLatency is added in each direction.
const storeLatency = 100 * time.Millisecond

func storeFaults() []fault {
	healed := func(x *trial) { toStore.each(func(n *network) { n.heal(x.t) }) }
	away := [surfaces]cell{
		gate: {
			want:   "allowed until the ceiling, then 503 gate_unavailable with Retry-After 10; afterwards the key revoked before the fault is denied",
			during: closesEverywhere,
		},
		management: {
			want:   "503 unavailable with Retry-After; no key is created twice; a leak report succeeds when sent again",
			during: all(cannotManage, cannotReport), after: all(notTwice, reportsAgain),
		},
		webhook: {want: "503 unavailable, never 401; the call, sent again, deploys once", during: cannotHook, after: hooksAgain},
		deploys: {want: "503 unavailable; running apps continue; the call creates at most one revision", during: cannotDeploy, after: neverTwice},
		rollup:  {want: "the run fails, the next run succeeds; no count is lost", during: cannotRoll},

		acknowledgement: unavailableOrCorrect(),
	}
	return []fault{
		{
			name:  "Store slow",
			begin: func(x *trial) { toStore.each(func(n *network) { n.slow(x.t, storeLatency) }) },
			end:   healed,
			cells: [surfaces]cell{
				gate:       {want: "default; no decision waits for the store", during: all(servesFast, revokesInTime)},
				management: {during: manages},
				webhook:    {during: hooks, after: hooksAgain},
				deploys:    {during: deploysNow},
				rollup:     {during: rolls},

				acknowledgement: confirmed(),
			},
		},
		{
			name: "Store hangs",
			begin: func(x *trial) {
				x.revoke()
				x.signal("firestore", syscall.SIGSTOP)
			},
			end: func(x *trial) { x.signal("firestore", syscall.SIGCONT) }, cells: away,
		},
		{
			name: "Store refuses connections",
			begin: func(x *trial) {
				x.revoke()
				toStore.each(func(n *network) { n.refuse(x.t) })
			},
			end: healed, cells: away,
		},
		{
			name: "Store resets connections",
			begin: func(x *trial) {
				x.revoke()
				toStore.each(func(n *network) { n.reset(x.t, 3, 700*time.Millisecond) })
			},
			end: healed,
			cells: [surfaces]cell{
				gate:       {want: "default: a broken listener does not invalidate the proof", during: serves(4 * time.Second)},
				management: {want: "success or 503 unavailable; no key is created twice", during: managesOrNot, after: notTwice},
				webhook:    {want: "the call, repeated until accepted, deploys once", during: hooksAgain},
				deploys:    {want: "success or 503 unavailable; the call creates at most one revision", during: deploysOrNot, after: neverTwice},
				rollup:     {want: "the run succeeds or fails, the next run succeeds; no count is lost", during: rollsOrNot},

				acknowledgement: confirmedOrNot(),
			},
		},
	}
}

// lastFaults returns the faults that must run last.
func lastFaults() []fault {
	return []fault{{
		name: emptyStore,
		begin: func(x *trial) {
			x.revoke()
			x.kill("firestore")
		},
		end: func(x *trial) { x.restart("firestore") },
		cells: [surfaces]cell{
			gate: {
				want:   "503 from the ceiling on; afterwards 401: all keys are gone",
				during: closesEverywhere, after: refusesAll,
			},
			management: {want: "existing sessions get 401; a restart of session recreates the first admin", during: nothing, after: forgotten},
			webhook:    {want: "401 invalid_token: the app no longer exists", during: nothing, after: forgottenHook},
			deploys:    {want: "401; running apps continue: an empty store deletes no workload", during: nothing, after: forgottenDeploy},
			rollup:     {want: "a run succeeds", during: nothing, after: all(rollsAgain)},

			acknowledgement: unavailableOrCorrect(),
		},
	}}
}

// servesFast checks that no decision waits for the store.
func servesFast(x *trial) {
	serves(3 * time.Second)(x)
	for _, y := range x.traffic.replicas {
		slow := y.count(x.began, time.Time{}, func(s sample) bool { return s.end.Sub(s.begin) > 2*storeLatency })
		asked := y.count(x.began, time.Time{}, answer)
		if 2*slow > asked { // on a busy machine, some responses are slow
			x.t.Errorf("%s: got %d of %d responses slower than a round trip to the store, want at most half", y.name, slow, asked)
		}
	}
}

func revokesInTime(x *trial) {
	x.revoke()
	for _, y := range x.traffic.doomed {
		y.until(x.t, "denied", ceiling, denied(http.StatusUnauthorized, "invalid_key"))
	}
	x.note("revoked within %.1f s", time.Since(*x.revoked).Seconds())
}

func (x *trial) orUnavailable(what string, r reply, status int) {
	x.t.Helper()
	if r.status != status && (r.status != http.StatusServiceUnavailable || r.code != "unavailable") {
		x.t.Errorf("%s: got %v, want %d or 503 unavailable: %.200s", what, r, status, r.body)
	}
	x.note("%d after %.1f s", r.status, r.took.Seconds())
}

func managesOrNot(x *trial) {
	x.orUnavailable("create a key", x.createKey("during "+x.fault), http.StatusCreated)
}

func deploysOrNot(x *trial) {
	x.orUnavailable("deploy", x.deploy(image(x.fault, "hand")), http.StatusAccepted)
}

func rollsOrNot(x *trial) {
	r := x.roll()
	if r.status != http.StatusOK && r.status < http.StatusInternalServerError {
		x.t.Errorf("roll up: got %v, want 200 or 5xx", r)
	}
	x.note("%d after %.1f s", r.status, r.took.Seconds())
}

func refusesAll(x *trial) {
	for _, y := range append(x.traffic.keyed(), x.traffic.doomed[:]...) {
		y.until(x.t, "denied", time.Minute, denied(http.StatusUnauthorized, "invalid_key"))
	}
}

func forgotten(x *trial) {
	x.eventually("create a key with an earlier session", func() reply { return x.createKey("after " + x.fault) }, http.StatusUnauthorized)
	before := x.token
	x.restart("session")
	x.signIn(x.t)
	again := *x.scene
	again.token = before
	r := again.createKey("after " + x.fault)
	x.gets("create a key with an earlier session after the admin was recreated", r, http.StatusUnauthorized, "unauthenticated")
	r = x.createKey("after " + x.fault)
	x.gets("create a key in a deleted project", r, http.StatusNotFound, "not_found")
}

func forgottenHook(x *trial) {
	img := image(x.fault, "hook")
	x.eventually("call the webhook", func() reply { return x.hook(img, img) }, http.StatusUnauthorized)
}

func forgottenDeploy(x *trial) {
	x.eventually("deploy", func() reply { return x.deploy(image(x.fault, "hand")) }, http.StatusUnauthorized)
	x.Call("byhand").Gets(http.StatusOK)
}

func rollsAgain(x *trial) { x.eventually("roll up", x.roll, http.StatusOK) }
