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

// serves checks that both replicas and the ingress allow every request with the key for d.
func serves(d time.Duration) func(*trial) {
	return func(x *trial) {
		x.t.Helper()
		from := time.Now()
		wait(x.t, d)
		for _, y := range x.traffic.keyed() {
			asked, not200 := y.count(from, time.Time{}, answer), y.count(from, time.Time{}, not(allowed))
			if asked == 0 || not200 != 0 {
				x.t.Errorf("%s: got %d of %d requests not allowed, want 0", y.name, not200, asked)
			}
		}
	}
}

// closes checks that each replica allows requests until the ceiling at the latest, and then
// denies with the gate's 503.
func closes(replicas ...int) func(*trial) {
	return func(x *trial) {
		x.t.Helper()
		for _, i := range replicas {
			y := x.traffic.replicas[i]
			y.until(x.t, "denied", ceiling+10*time.Second, denied(http.StatusServiceUnavailable, "gate_unavailable"))
			late := x.there.Add(ceiling)
			wait(x.t, time.Until(late.Add(time.Second)))
			if n := y.count(late, time.Time{}, allowed); n != 0 {
				x.t.Errorf("%s: got %d allowed requests after the ceiling, want 0", y.name, n)
			}
			if n := y.count(x.began, time.Time{}, not(either(allowed, denied(http.StatusServiceUnavailable, "gate_unavailable")))); n != 0 {
				x.t.Errorf("%s: got %d responses other than 200 and gate_unavailable, want 0", y.name, n)
			}
			x.note("replica %d denied after %.1f s", i, y.firstSince(x.began, denied(http.StatusServiceUnavailable, "gate_unavailable")).Seconds())
		}
	}
}

// closesEverywhere also checks the headers that clients get.
func closesEverywhere(x *trial) {
	closes(0, 1)(x)
	// Replicas with a stale view close the proxy's connections, so a single request may fail.
	a := x.Call("hello").Key(x.key).Within(30*time.Second).Gets(http.StatusServiceUnavailable, "gate_unavailable")
	if a.Header.Get("Retry-After") != "10" || a.Header.Get("Access-Control-Allow-Origin") != "*" {
		x.t.Errorf("got headers %v, want Retry-After 10 and Access-Control-Allow-Origin *", a.Header)
	}
	x.Call("hello").Within(30*time.Second).Gets(http.StatusServiceUnavailable, "gate_unavailable")
}

func either(a, b func(sample) bool) func(sample) bool {
	return func(s sample) bool { return a(s) || b(s) }
}

// firstSince returns the time from t to the first matching response.
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

func manages(x *trial) {
	r := x.createKey("during " + x.fault)
	x.gets("create a key", r, http.StatusCreated, "")
	x.note("%.1f s", r.took.Seconds())
}

func cannotManage(x *trial) {
	r := x.createKey("during " + x.fault)
	x.unavailable("create a key", r)
}

// unavailable checks for 503 unavailable with Retry-After.
func (x *trial) unavailable(what string, r reply) {
	x.t.Helper()
	x.gets(what, r, http.StatusServiceUnavailable, "unavailable")
	if r.status != 0 && r.header.Get("Retry-After") == "" {
		x.t.Errorf("%s: no Retry-After", what)
	}
	x.note("503 after %.1f s", r.took.Seconds())
}

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

func cannotReport(x *trial) { x.unavailable("report a leaked key", x.report()) }

func reportsAgain(x *trial) {
	x.eventually("report the key again", x.report, http.StatusOK)
	if k, err := x.Client.Key(x.t.Context(), x.Project, x.leaky.ID); err != nil || k.Status != "disabled" || k.Leak == nil {
		x.t.Errorf("reported key: got status %s, leak %+v, %v, want disabled", k.Status, k.Leak, err)
	}
}

// notTwice checks that a failed call has created at most one key.
func notTwice(x *trial) {
	if n := x.keysCalled("during " + x.fault); n > 1 {
		x.t.Errorf("one call created %d keys, want at most 1", n)
	}
}

// hooks calls the webhook and waits until the app runs the image.
func hooks(x *trial) {
	img := image(x.fault, "hook")
	r := x.hook(img, img)
	x.gets("call the webhook", r, http.StatusAccepted, "")
	x.Runs("hooked", img)
	x.note("%.1f s", r.took.Seconds())
}

func cannotHook(x *trial) {
	img := image(x.fault, "hook")
	x.unavailable("call the webhook", x.hook(img, img))
}

// hooksAgain repeats the call, which must deploy once even if the first call succeeded.
func hooksAgain(x *trial) {
	img := image(x.fault, "hook")
	x.eventually("send the webhook call again", func() reply { return x.hook(img, img) }, http.StatusAccepted)
	x.Runs("hooked", img)
	x.once("hooked", img)
}

func deploysNow(x *trial) {
	img := image(x.fault, "hand")
	r := x.deploy(img)
	x.gets("deploy", r, http.StatusAccepted, "")
	x.Runs("byhand", img)
	x.once("byhand", img)
	x.note("%.1f s", r.took.Seconds())
}

// cannotDeploy also checks that the app continues to run.
func cannotDeploy(x *trial) {
	x.unavailable("deploy", x.deploy(image(x.fault, "hand")))
	x.Call("byhand").Gets(http.StatusOK)
}

// neverTwice checks that a failed call has created at most one revision.
func neverTwice(x *trial) {
	if n := len(x.revisionsOf("byhand", image(x.fault, "hand"))); n > 1 {
		x.t.Errorf("one call created %d revisions, want at most 1", n)
	}
}

func rolls(x *trial) {
	r := x.roll()
	x.gets("roll up", r, http.StatusOK, "")
	x.note("%.1f s", r.took.Seconds())
}

// cannotRoll checks for a 5xx, after which the sender of the event retries.
func cannotRoll(x *trial) {
	r := x.roll()
	if r.status < http.StatusInternalServerError {
		x.t.Errorf("roll up: got %v, want 5xx", r)
	}
	x.note("%d after %.1f s", r.status, r.took.Seconds())
}

func all(parts ...func(*trial)) func(*trial) {
	return func(x *trial) {
		for _, f := range parts {
			f(x)
		}
	}
}

func nothing(*trial) {}

func (x *trial) signal(name string, s syscall.Signal) {
	x.t.Helper()
	check.OK(x.t, world.Signal(name, s))
}

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
