package wiring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reconcile"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/long"
)

var (
	open  = cluster.State{Deployment: cluster.Right, Service: cluster.Right, Route: cluster.RouteOpen}
	gated = cluster.State{Deployment: cluster.Right, Service: cluster.Right, CA: cluster.Right, Middleware: cluster.Right, Route: cluster.RouteGated}
)

func TestEngageAndRelease(t *testing.T) {
	t.Parallel()
	for _, kind := range []cluster.RouteKind{cluster.TraefikRoutes, cluster.GatewayTraefikRoutes} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			siteOf(t, kind).engageAndRelease()
		})
	}
}

func (s *site) engageAndRelease() {
	s.Helper()
	t := s.T
	s.ready()
	check.Equal(t, "an ungated app", open, s.state())
	s.turn(true)
	start := time.Now()
	s.requested()
	t.Logf("engaged after %v", time.Since(start))
	s.settles(app.Engaged, "")
	check.Equal(t, "a gated app", gated, s.state())
	if status, _ := s.request(nil); status != http.StatusUnauthorized {
		t.Errorf("status without a key: got %d, want 401", status)
	}
	status, got := s.request(map[string]string{
		"X-Api-Key": "good", "X_Service.Key-Prefix": "forged", "x-service-key-name": "forged",
	})
	if status != http.StatusOK || got.Get("X-Service-Key-Prefix") != "ab12cd34" || len(got["X-Api-Key"]) > 0 ||
		len(got["X_service.key-Prefix"]) > 0 || got.Get("X-Service-Key-Name") != "" {
		t.Errorf("with a key: got status %d, and the app received %v", status, got)
	}
	since := s.app().Gate.Since
	s.tick()
	if got := s.app().Gate.Since; !got.Equal(since) {
		t.Error("a resync changed an engaged gate")
	}

	s.turn(false)
	start = time.Now()
	s.requested()
	t.Logf("released after %v", time.Since(start))
	s.settles(app.Ungated, "")
	want := open
	want.CA = cluster.Right // remains in the namespace
	check.Equal(t, "a released app", want, s.state())
	if status, _ := s.request(nil); status != http.StatusOK {
		t.Errorf("status after release: got %d", status)
	}
}

func TestIdentityHeadersWithoutAGate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ready()
	forged := map[string]string{"X-Service-Key-Prefix": "ab12cd34", "x_service.key-name": "forged", "X.SERVICE.KEY.PREFIX": "forged", "X-Api-Key": "own"}
	s.within(func() string {
		status, got := s.request(forged)
		if status != http.StatusOK || len(got["X-Service-Key-Prefix"])+len(got["X_service.key-Name"])+len(got["X.service.key.prefix"]) > 0 || got.Get("X-Api-Key") != "own" {
			return fmt.Sprintf("%d, the app got %v", status, got)
		}
		return ""
	})
	middlewares := s.dynamic.Resource(middlewareKind()).Namespace(s.ref.Namespace)
	check.OK(t, middlewares.DeleteCollection(t.Context(), metav1.DeleteOptions{}, listAll()))
	s.within(func() string {
		status, got := s.request(forged)
		if status != http.StatusOK {
			t.Fatalf("status without the Middleware: got %d", status)
		}
		if got.Get("X-Service-Key-Prefix") == "" {
			return "Traefik still has the Middleware"
		}
		return ""
	})
	s.tick()
	if s.state().StripStale {
		t.Error("the Middleware was not restored")
	}
}

func TestCheckerThatHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience = time.Second
	s.service = s.replica()
	hanging := s.listen(s.checker) // accepts connections and never responds
	defer func() { _ = hanging.Close() }()
	s.turn(true)
	s.settles(app.Pending, "The ingress does not respond in time. Check that the checkers respond.")
}

func TestPendingUntilProven(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		verdict *problem.Error // nil if no checker runs
		message string
	}{
		{"no checker", nil, "The ingress cannot reach the checkers. Check CHECKER_URL and the network policies."},
		{"checker denies everything", problem.FromCode(problem.GateUnavailable), "The gate is on the route, but cannot verify keys. Check the checkers."},
		{"checker misconfigured", problem.FromCode(problem.Misconfigured), "The gate is on the route, but misconfigured. Check CHECKER_URL and the ingress."},
		{"another 401", problem.FromCode(problem.Unauthenticated), "The app's public URL still returns 401 to a request without a key."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.cfg.ProofPatience = 3 * time.Second
			s.service = s.replica()
			s.tick()
			s.serveApp()
			if tt.verdict != nil {
				s.verdict.Store(tt.verdict)
				s.serveChecker()
			}
			s.turn(true)
			s.requested()
			s.settles(app.Pending, tt.message)
			since := s.app().Gate.Since

			if tt.verdict == nil {
				s.serveChecker()
			}
			s.verdict.Store(problem.FromCode(problem.InvalidKey))
			s.settles(app.Engaged, "")
			if !s.app().Gate.Since.After(since) {
				t.Error("the state's time did not change")
			}
		})
	}
}

func TestDriftIsRepairedAndProvenAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, resource, patch string
	}{
		{"middleware off the route", "ingressroutes", `[{"op":"remove","path":"/spec/routes/0/middlewares"}]`},
		{"trusting forwarded headers", "middlewares", `[{"op":"replace","path":"/spec/forwardAuth/trustForwardHeader","value":true}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.ready()
			s.turn(true)
			s.requested()
			s.settles(app.Engaged, "")
			engaged := s.app().Gate.Since

			s.verdict.Store(problem.FromCode(problem.GateUnavailable)) // delays the proof
			name := s.ref.Name
			if tt.resource == "middlewares" {
				objects, err := s.dynamic.Resource(middlewareKind()).Namespace(s.ref.Namespace).List(t.Context(), listAll())
				if err != nil || len(objects.Items) != 5 {
					t.Fatalf("middlewares: %v", err)
				}
				name = objects.Items[1].GetName() // "gate" after "cors"
			}
			s.patch(tt.resource, name, tt.patch)
			s.cfg.ProofPatience = 2 * time.Second
			s.service = s.replica()
			s.settles(app.Pending, "The gate is on the route, but cannot verify keys. Check the checkers.")
			check.Equal(t, "after repair", gated, s.state())
			s.verdict.Store(problem.FromCode(problem.InvalidKey))
			s.settles(app.Engaged, "")
			if !s.app().Gate.Since.After(engaged) {
				t.Error("the state's time did not change although the gate was pending")
			}
		})
	}
}

func TestEngagedGateIsVerifiedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ready()
	s.turn(true)
	s.requested()
	s.settles(app.Engaged, "")
	due := func() {
		s.service.schedule.mu.Lock()
		defer s.service.schedule.mu.Unlock()
		s.service.schedule.next[s.ref] = time.Now().Add(-time.Second)
	}
	s.verdict.Store(problem.FromCode(problem.GateUnavailable))
	due()
	s.settles(app.Engaged, "The gate is on the route, but cannot verify keys. Check the checkers.")
	s.verdict.Store(problem.FromCode(problem.InvalidKey))
	s.settles(app.Engaged, "") // still due after the failed proof

	// A route with a higher priority bypasses the gate.
	s.bypass()
	s.answers(http.StatusOK)
	due()
	s.settles(app.Pending, "The app's public URL still returns 200 to a request without a key.")
}

func TestSwitchInterruptsProof(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience = time.Minute
	s.service = s.replica()
	s.ready()
	s.verdict.Store(problem.FromCode(problem.GateUnavailable))
	s.turn(true)
	var group sync.WaitGroup
	group.Go(func() { s.requested() }) // cannot be proven
	s.within(func() string {
		if s.state().Route != cluster.RouteGated {
			return "the route is not gated yet"
		}
		return ""
	})
	s.turn(false)
	start := time.Now()
	s.requested()
	group.Wait()
	s.wantGate(app.Ungated, "")
	if took := time.Since(start); took > reconcile.Timeout/2 {
		t.Errorf("switching off waited for the proof of switching on: %v", took)
	}
}

func TestSwitchedOffAndOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var pauses []time.Duration
	for i := range 12 {
		pauses = append(pauses, time.Duration(i)*30*time.Millisecond)
	}
	s.switchOffAndOn(pauses, 500*time.Millisecond)
}

// TestSwitchedOften repeats this 200 times with pauses of up to 3 s, on fast and slow ingresses.
func TestSwitchedOften(t *testing.T) {
	long.Only(t)
	t.Parallel()
	const apps, switches = 20, 10
	for _, throttle := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
		t.Run(throttle.String(), func(t *testing.T) {
			t.Parallel()
			url := clustertest.ThrottledIngress(t, throttle)
			var group sync.WaitGroup
			defer group.Wait()
			for i := range apps {
				group.Go(func() {
					t.Run(strconv.Itoa(i), func(t *testing.T) {
						s := newSite(t)
						s.cfg.IngressURL = url
						s.service = s.replica()
						var pauses []time.Duration
						for j := range switches {
							pauses = append(pauses, 3*time.Second*time.Duration(j*apps+i)/(apps*switches))
						}
						s.switchOffAndOn(pauses, throttle+500*time.Millisecond)
					})
				})
			}
		})
	}
}

func (s *site) switchOffAndOn(pauses []time.Duration, watch time.Duration) {
	s.Helper()
	s.ready()
	s.turn(true)
	s.requested()
	s.settles(app.Engaged, "")
	for i, pause := range pauses {
		s.turn(false)
		var off sync.WaitGroup
		off.Go(s.requested)
		select {
		case <-time.After(pause):
		case <-s.Context().Done():
		}
		s.turn(true)
		s.requested()
		off.Wait()
		s.settles(app.Engaged, "")
		again := time.NewTicker(20 * time.Millisecond)
		for end := time.Now().Add(watch); time.Now().Before(end); <-again.C {
			if status, _ := s.request(nil); status == http.StatusOK {
				s.Fatalf("switch %d: a request without a key was served after the gate was engaged", i)
			}
		}
		again.Stop()
	}
}

func TestEarlierCheckers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.earlier.Store(true)
	s.cfg.ProofPatience = time.Second
	s.service = s.replica()
	s.ready()
	s.turn(true)
	s.settles(app.Pending, string(stale))
	for _, c := range []store.Canary{
		{Replica: "earlier", Run: "r", Seq: 1},
		{Replica: "present", Run: "r", Seq: 1, Features: checkers.Features()},
	} {
		check.OK(t, s.store.WriteCanary(t.Context(), store.CanaryKeys, c))
	}
	s.settles(app.Engaged, "")
}

func TestTwoReplicasAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.replica()
	s.ready()
	for _, on := range []bool{true, false, true} {
		s.turn(on)
		var group sync.WaitGroup
		for _, replica := range []*Service{s.service, other} {
			for _, e := range []string{funcmain.PingType, app.GateRequested} {
				group.Go(func() {
					if err := replica.Receive(t.Context(), event(e, s.ref.String())); err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		s.tick() // in case both had a conflict
		want := app.Ungated
		if on {
			want = app.Engaged
		}
		s.wantGate(want, "")
	}
}

// TestPreflightWithABody checks that the ingress refuses a preflight with a body. Traefik does not
// call the checker, so the response has no code (infra/proxies/README.md).
func TestPreflightWithABody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ready()
	s.turn(true)
	s.settles(app.Engaged, "")
	for _, length := range []int64{1, -1} { // -1 sends chunks
		req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, s.cfg.IngressURL+"/x", io.NopCloser(strings.NewReader("x")))
		check.OK(t, err)
		req.Host, req.ContentLength = s.host, length
		req.Header.Set("Access-Control-Request-Method", "GET")
		resp, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		body, err := io.ReadAll(resp.Body)
		check.OK(t, err)
		check.OK(t, resp.Body.Close())
		if resp.StatusCode != http.StatusUnauthorized || len(body) > 0 {
			t.Errorf("length %d: got %d %s, want 401 without a body", length, resp.StatusCode, body)
		}
	}
}

// overtaken runs another replica between the reads of the objects and of the document.
type overtaken struct {
	*cluster.Cluster
	once  sync.Once
	other func()
}

func (o *overtaken) Objects(ctx context.Context, ref app.Ref) (cluster.Objects, error) {
	seen, err := o.Cluster.Objects(ctx, ref)
	o.once.Do(o.other)
	return seen, err
}

// TestEngagedByAnother tests that writes of another replica are not drift.
func TestEngagedByAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ready()
	s.turn(true)
	var engaged time.Time
	late := s.replica()
	late.cluster = &overtaken{Cluster: s.cluster, other: func() {
		s.requested()
		s.settles(app.Engaged, "")
		engaged = s.app().Gate.Since
	}}
	check.OK(t, late.Receive(t.Context(), event(app.GateRequested, s.ref.String())))
	s.wantGate(app.Engaged, "")
	if got := s.app().Gate.Since; !got.Equal(engaged) {
		t.Errorf("engaged at %v, but treated as changed until %v", engaged, got)
	}
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pending := app.App{RequireAPIKey: true, Gate: app.Gate{State: app.Pending, Since: at}}
	off := app.App{Gate: app.Gate{State: app.Releasing, Since: at.Add(1)}}
	again := pending
	again.Gate.Since = at.Add(2)
	later := at.Add(time.Hour)
	tests := []struct {
		name    string
		is, was app.App
		next    app.Gate
		want    app.Gate
		err     error
	}{
		{"moves on", pending, pending, app.Gate{State: app.Engaged, Since: later}, app.Gate{State: app.Engaged, Since: later}, nil},
		{"a new message keeps the time", pending, pending, app.Gate{State: app.Pending, Since: later, Message: "m"}, app.Gate{State: app.Pending, Since: at, Message: "m"}, nil},
		{"nothing new", pending, pending, app.Gate{State: app.Pending, Since: later}, app.Gate{}, errUnchanged},
		{"switched off meanwhile", off, pending, app.Gate{State: app.Engaged, Since: later}, app.Gate{}, errSwitched},
		{"off and on again meanwhile", again, pending, app.Gate{State: app.Engaged, Since: later}, app.Gate{}, errSwitched},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := advance(tt.is, tt.was, tt.next)
			if !errors.Is(err, tt.err) || err == nil && got != tt.want {
				t.Errorf("got %+v, %v; want %+v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}
