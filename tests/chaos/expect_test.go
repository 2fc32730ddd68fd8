package chaos

import (
	"encoding/json"
	"net/http"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// These are the words of which cells are made.

// serves: for a time from now on every request with a good key is allowed, by both
// replicas and through the ingress.
func serves(d time.Duration) func(*trial) {
	return func(x *trial) {
		x.t.Helper()
		from := time.Now()
		wait(x.t, d)
		for _, y := range x.traffic.keyed() {
			asked, not200 := y.count(from, time.Time{}, answer), y.count(from, time.Time{}, not(allowed))
			if asked == 0 || not200 != 0 {
				x.t.Errorf("%s: %d of %d requests were not allowed", y.name, not200, asked)
			}
		}
	}
}

// closes: each of the replicas allows until the ceiling at the latest, and denies
// from then on with the gate's own 503.
func closes(replicas ...int) func(*trial) {
	return func(x *trial) {
		x.t.Helper()
		for _, i := range replicas {
			y := x.traffic.replicas[i]
			y.until(x.t, "denied", ceiling+10*time.Second, denied(http.StatusServiceUnavailable, "gate_unavailable"))
			late := x.there.Add(ceiling)
			wait(x.t, time.Until(late.Add(time.Second)))
			if n := y.count(late, time.Time{}, allowed); n != 0 {
				x.t.Errorf("%s: %d requests were allowed after the ceiling", y.name, n)
			}
			if n := y.count(x.began, time.Time{}, not(either(allowed, denied(http.StatusServiceUnavailable, "gate_unavailable")))); n != 0 {
				x.t.Errorf("%s: %d requests got another answer than 200 and gate_unavailable", y.name, n)
			}
			x.note("replica %d denied after %.1f s", i, y.firstSince(x.began, denied(http.StatusServiceUnavailable, "gate_unavailable")).Seconds())
		}
	}
}

// closesEverywhere: both replicas, and what clients get says when to come again.
func closesEverywhere(x *trial) {
	closes(0, 1)(x)
	// Stale replicas end the proxy's connections, so one may break under a request.
	a := x.Call("hello").Key(x.key).Within(30*time.Second).Gets(http.StatusServiceUnavailable, "gate_unavailable")
	if a.Header.Get("Retry-After") != "10" || a.Header.Get("Access-Control-Allow-Origin") != "*" {
		x.t.Errorf("headers %v", a.Header)
	}
	x.Call("hello").Within(30*time.Second).Gets(http.StatusServiceUnavailable, "gate_unavailable")
}

func either(a, b func(sample) bool) func(sample) bool {
	return func(s sample) bool { return a(s) || b(s) }
}

// firstSince is how long after t the first such answer came.
func (y *stream) firstSince(t time.Time, so func(sample) bool) time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, s := range y.samples {
		if s.begin.After(t) && so(s) {
			return s.end.Sub(t)
		}
	}
	return 0
}

// manages: a change can be made, and acts at the gate.
func manages(x *trial) {
	r := x.createKey("during " + x.fault)
	x.gets("make a key", r, http.StatusCreated, "")
	x.note("%.1f s", r.took.Seconds())
}

// cannotManage: a change is answered as unavailable, and soon enough for a proxy.
func cannotManage(x *trial) {
	r := x.createKey("during " + x.fault)
	x.unavailable("make a key", r)
}

// unavailable is how a call is answered that needs what is away.
func (x *trial) unavailable(what string, r reply) {
	x.t.Helper()
	x.gets(what, r, http.StatusServiceUnavailable, "unavailable")
	if r.status != 0 && r.header.Get("Retry-After") == "" {
		x.t.Errorf("%s: no Retry-After", what)
	}
	x.note("503 after %.1f s", r.took.Seconds())
}

// report has the program report the leaky key.
func (x *trial) report() reply {
	x.t.Helper()
	found := []wire.FoundSecret{{Token: x.leaky.Full, URL: "https://git.example.com/x"}}
	body, err := json.Marshal(found)
	check.OK(x.t, err)
	head := scanner.Sign(x.t, scannersKey, string(body))
	var pairs []string
	for name := range head {
		pairs = append(pairs, name, head.Get(name))
	}
	return x.call(http.MethodPost, world.Info().BaseURL+api.ReportLeaks.Path, found, pairs...)
}

// cannotReport: a program is told to send its report again.
func cannotReport(x *trial) { x.unavailable("report a leaked key", x.report()) }

// reportsAgain: the report, sent again, ends the key.
func reportsAgain(x *trial) {
	x.eventually("report the key again", x.report, http.StatusOK)
	if k, err := x.Client.Key(x.t.Context(), x.Project, x.leaky.ID); err != nil || k.Status != "disabled" || k.Leak == nil {
		x.t.Errorf("the key is %s, %+v, %v", k.Status, k.Leak, err)
	}
}

// notTwice: what could not be said to be done was not done twice.
func notTwice(x *trial) {
	if n := x.keysCalled("during " + x.fault); n > 1 {
		x.t.Errorf("one call made %d keys", n)
	}
}

// hooks: a webhook call deploys, and the app comes to run it.
func hooks(x *trial) {
	img := image(x.fault, "hook")
	r := x.hook(img, img)
	x.gets("call the webhook", r, http.StatusAccepted, "")
	x.Runs("hooked", img)
	x.note("%.1f s", r.took.Seconds())
}

// cannotHook: the call is answered as unavailable, never as a wrong token.
func cannotHook(x *trial) {
	img := image(x.fault, "hook")
	x.unavailable("call the webhook", x.hook(img, img))
}

// hooksAgain: the same delivery, sent again, deploys once, whatever became of it
// before.
func hooksAgain(x *trial) {
	img := image(x.fault, "hook")
	x.eventually("send the delivery again", func() reply { return x.hook(img, img) }, http.StatusAccepted)
	x.Runs("hooked", img)
	x.once("hooked", img)
}

// deploysNow: a deployment is recorded and goes live.
func deploysNow(x *trial) {
	img := image(x.fault, "hand")
	r := x.deploy(img)
	x.gets("deploy", r, http.StatusAccepted, "")
	x.Runs("byhand", img)
	x.once("byhand", img)
	x.note("%.1f s", r.took.Seconds())
}

// cannotDeploy: the call is answered as unavailable, and what runs goes on.
func cannotDeploy(x *trial) {
	x.unavailable("deploy", x.deploy(image(x.fault, "hand")))
	x.Call("byhand").Gets(http.StatusOK)
}

// neverTwice: the call that was not answered well was recorded once or not at all.
func neverTwice(x *trial) {
	if n := len(x.revisionsOf("byhand", image(x.fault, "hand"))); n > 1 {
		x.t.Errorf("one call made %d revisions", n)
	}
}

// rolls: a run is done.
func rolls(x *trial) {
	r := x.roll()
	x.gets("roll up", r, http.StatusOK, "")
	x.note("run of %.1f s", r.took.Seconds())
}

// cannotRoll: a run fails and says so, so that its event is sent again.
func cannotRoll(x *trial) {
	r := x.roll()
	if r.status < http.StatusInternalServerError {
		x.t.Errorf("roll up: %v", r)
	}
	x.note("%d after %.1f s", r.status, r.took.Seconds())
}

// all does one after another.
func all(parts ...func(*trial)) func(*trial) {
	return func(x *trial) {
		for _, f := range parts {
			f(x)
		}
	}
}

func nothing(*trial) {}

// signal sends one to a process.
func (x *trial) signal(name string, s syscall.Signal) {
	x.t.Helper()
	check.OK(x.t, world.Signal(name, s))
}

// kill ends processes at once; restart starts them again.
func (x *trial) kill(names ...string) {
	x.t.Helper()
	for _, name := range names {
		check.OK(x.t, world.Kill(name))
	}
}

func (x *trial) restart(names ...string) {
	x.t.Helper()
	for _, name := range names {
		check.OK(x.t, world.Restart(x.t.Context(), name))
	}
}
