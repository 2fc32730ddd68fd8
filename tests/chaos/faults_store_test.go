package chaos

import (
	"net/http"
	"syscall"
	"time"
)

// emptyStore is the fault after which nothing of the scene is left.
const emptyStore = "store restarted empty"

// storeLatency is what a slow store takes longer in each direction.
const storeLatency = 100 * time.Millisecond

// storeFaults are those of the way to the store and of the store itself, for all
// processes at once.
func storeFaults() []fault {
	healed := func(x *trial) { toStore.each(func(n *network) { n.heal(x.t) }) }
	away := [surfaces]cell{
		gate: {
			must:   "allows on what is proven until the ceiling, then 503 gate_unavailable with Retry-After 10; a key revoked just before is refused from the first request on which is decided again",
			during: closesEverywhere,
		},
		management: {
			must:   "503 unavailable with Retry-After, in time; nothing is done twice; a report of a leaked key is 503 too, and sent again it ends the key",
			during: all(cannotManage, cannotReport), after: all(notTwice, reportsAgain),
		},
		webhook: {must: "503 unavailable, never 401; the delivery sent again deploys once", during: cannotHook, after: hooksAgain},
		deploys: {must: "503 unavailable; what runs goes on; at most one revision comes of the call", during: cannotDeploy, after: neverTwice},
		rollup:  {must: "the run fails and says so; the next one does the work; no count is lost", during: cannotRoll},

		acknowledgement: unsaid(),
	}
	return []fault{
		{
			name:  "store slow",
			begin: func(x *trial) { toStore.each(func(n *network) { n.slow(x.t, storeLatency) }) },
			end:   healed,
			cells: [surfaces]cell{
				gate:       {must: "answers as before, from memory; a revocation acts", during: all(servesFast, revokesInTime)},
				management: {must: "works, later", during: manages},
				webhook:    {must: "deploys once, later", during: hooks, after: hooksAgain},
				deploys:    {must: "goes live, later", during: deploysNow},
				rollup:     {must: "runs, later; no count is lost", during: rolls},

				acknowledgement: followed(),
			},
		},
		{
			name: "store stalled without closing",
			begin: func(x *trial) {
				x.revoke()
				x.signal("firestore", syscall.SIGSTOP)
			},
			end: func(x *trial) { x.signal("firestore", syscall.SIGCONT) }, cells: away,
		},
		{
			name: "store refusing",
			begin: func(x *trial) {
				x.revoke()
				toStore.each(func(n *network) { n.refuse(x.t) })
			},
			end: healed, cells: away,
		},
		{
			name: "store reset mid-stream",
			begin: func(x *trial) {
				x.revoke()
				toStore.each(func(n *network) { n.reset(x.t, 3, 700*time.Millisecond) })
			},
			end: healed,
			cells: [surfaces]cell{
				gate:       {must: "serves on: a listener that breaks takes no proof back; a revocation acts", during: serves(4 * time.Second)},
				management: {must: "a call works or is 503 unavailable; nothing is done twice", during: managesOrNot, after: notTwice},
				webhook:    {must: "the delivery, sent until it is answered, deploys once", during: hooksAgain},
				deploys:    {must: "a call works or is 503 unavailable; at most one revision comes of it", during: deploysOrNot, after: neverTwice},
				rollup:     {must: "a run works or fails; the next one does the work; no count is lost", during: rollsOrNot},

				acknowledgement: followedOrNot(),
			},
		},
	}
}

// lastFaults leave nothing for others.
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
				must:   "503 from the ceiling on; once the store is back every key is gone, so each is refused with 401",
				during: closesEverywhere, after: refusesAll,
			},
			management: {must: "no session of before is good: 401; the first admin is made again at the next start of session", during: nothing, after: forgotten},
			webhook:    {must: "a call with the old token is 401 invalid_token: the app is gone, and nothing is made of it", during: nothing, after: forgottenHook},
			deploys:    {must: "401, and what runs goes on: a store that is empty deletes no workload", during: nothing, after: forgottenDeploy},
			rollup:     {must: "runs over nothing", during: nothing, after: all(rollsAgain)},

			acknowledgement: unsaid(),
		},
	}}
}

// servesFast: no decision waits for the store.
func servesFast(x *trial) {
	serves(3 * time.Second)(x)
	for _, y := range x.traffic.replicas {
		slow := y.count(x.began, time.Time{}, func(s sample) bool { return s.end.Sub(s.begin) > 2*storeLatency })
		asked := y.count(x.began, time.Time{}, answer)
		if 2*slow > asked { // the machine itself is slow at times, but not for most
			x.t.Errorf("%s: %d of %d answers took as long as a way to the store and back", y.name, slow, asked)
		}
	}
}

// revokesInTime: a key that is revoked during the fault is refused within the ceiling.
func revokesInTime(x *trial) {
	x.revoke()
	for _, y := range x.traffic.doomed {
		y.until(x.t, "refused", ceiling, denied(http.StatusUnauthorized, "invalid_key"))
	}
	x.note("revoked within %.1f s", time.Since(*x.revoked).Seconds())
}

// orUnavailable takes both.
func (x *trial) orUnavailable(what string, r reply, status int) {
	x.t.Helper()
	if r.status != status && (r.status != http.StatusServiceUnavailable || r.code != "unavailable") {
		x.t.Errorf("%s: %v, want %d or 503 unavailable: %.200s", what, r, status, r.body)
	}
	x.note("%d after %.1f s", r.status, r.took.Seconds())
}

func managesOrNot(x *trial) {
	x.orUnavailable("make a key", x.createKey("during "+x.fault), http.StatusCreated)
}

func deploysOrNot(x *trial) {
	x.orUnavailable("deploy", x.deploy(image(x.fault, "hand")), http.StatusAccepted)
}

func rollsOrNot(x *trial) {
	r := x.roll()
	if r.status != http.StatusOK && r.status < http.StatusInternalServerError {
		x.t.Errorf("roll up: %v", r)
	}
	x.note("%d after %.1f s", r.status, r.took.Seconds())
}

func refusesAll(x *trial) {
	for _, y := range append(x.traffic.keyed(), x.traffic.doomed[:]...) {
		y.until(x.t, "refused", time.Minute, denied(http.StatusUnauthorized, "invalid_key"))
	}
}

func forgotten(x *trial) {
	x.eventually("make a key with a session of before", func() reply { return x.createKey("after " + x.fault) }, http.StatusUnauthorized)
	before := x.token
	x.restart("session")
	x.signIn(x.t)
	again := *x.scene
	again.token = before
	r := again.createKey("after " + x.fault)
	x.gets("make a key with a session of before, once there is an admin of that name again", r, http.StatusUnauthorized, "unauthenticated")
	r = x.createKey("after " + x.fault)
	x.gets("make a key in a project that is gone", r, http.StatusNotFound, "not_found")
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
