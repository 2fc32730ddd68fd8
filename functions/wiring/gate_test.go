package wiring

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
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
		t.Errorf("without a key: %d", status)
	}
	status, got := s.request(map[string]string{
		"X-Api-Key": "good", "X_Service.Key-Prefix": "forged", "x-service-key-name": "forged",
	})
	if status != http.StatusOK || got.Get("X-Service-Key-Prefix") != "ab12cd34" || len(got["X-Api-Key"]) > 0 ||
		len(got["X_service.key-Prefix"]) > 0 || got.Get("X-Service-Key-Name") != "" {
		t.Errorf("with a key: %d, and the app got %v", status, got)
	}
	since := s.app().Gate.Since
	s.tick() // nothing to do
	if got := s.app().Gate.Since; !got.Equal(since) {
		t.Error("a tick has moved a gate that is in place")
	}

	s.turn(false)
	start = time.Now()
	s.requested()
	t.Logf("released after %v", time.Since(start))
	s.settles(app.Ungated, "")
	want := open
	want.CA = cluster.Right // the namespace keeps it
	check.Equal(t, "a released app", want, s.state())
	if status, _ := s.request(nil); status != http.StatusOK {
		t.Errorf("after release: %d", status)
	}
}

// TestIdentityHeadersWithoutAGate: an app without a gate gets no identity headers from
// clients, and is served also while the Middleware that removes them is missing.
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
			t.Fatalf("without the Middleware the app answers %d", status)
		}
		if got.Get("X-Service-Key-Prefix") == "" {
			return "Traefik still has the Middleware"
		}
		return ""
	})
	s.tick()
	if s.state().StripStale {
		t.Error("the Middleware was not put back")
	}
}

func TestCheckerThatHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience = time.Second
	s.service = s.replica()
	stuck := s.listen(s.checker) // takes connections and says nothing
	defer func() { _ = stuck.Close() }()
	s.turn(true)
	s.settles(app.Pending, "The ingress does not answer in time; the checker may be stuck.")
}

func TestPendingUntilProven(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		verdict *problem.Error // nil: nobody answers as the checker
		message string
	}{
		{"no checker", nil, "The ingress cannot reach the checker."},
		{"checker denies everything", problem.Of(problem.GateUnavailable), "The gate is on the route, but cannot verify keys right now."},
		{"checker misconfigured", problem.Of(problem.Misconfigured), "The gate is on the route, but misconfigured."},
		{"another 401", problem.Of(problem.Unauthenticated), "The app's public URL still answers 401 to a request without a key."},
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
			s.verdict.Store(problem.Of(problem.InvalidKey))
			s.settles(app.Engaged, "")
			if !s.app().Gate.Since.After(since) {
				t.Error("the state's time did not move on")
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

			s.verdict.Store(problem.Of(problem.GateUnavailable)) // so that it cannot be proven at once
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
			s.settles(app.Pending, "The gate is on the route, but cannot verify keys right now.")
			check.Equal(t, "after repair", gated, s.state())
			s.verdict.Store(problem.Of(problem.InvalidKey))
			s.settles(app.Engaged, "")
			if !s.app().Gate.Since.After(engaged) {
				t.Error("the gate was pending meanwhile, but its time says otherwise")
			}
		})
	}
}

func TestEngagedIsProvenAnew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ready()
	s.turn(true)
	s.requested()
	s.settles(app.Engaged, "")
	due := func() { // as if the time for it had come
		s.service.proofs.mu.Lock()
		defer s.service.proofs.mu.Unlock()
		s.service.proofs.next[s.ref] = time.Now().Add(-time.Second)
	}
	s.verdict.Store(problem.Of(problem.GateUnavailable))
	due()
	s.settles(app.Engaged, "The gate is on the route, but cannot verify keys right now.")
	s.verdict.Store(problem.Of(problem.InvalidKey))
	s.settles(app.Engaged, "") // still due, since the last proof failed

	// A gate that looks right but is passed by: somebody's route with more priority.
	s.bypass()
	s.answers(http.StatusOK)
	due()
	s.settles(app.Pending, "The app's public URL still answers 200 to a request without a key.")
}

func TestSwitchingWhileItIsProven(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience = time.Minute
	s.service = s.replica()
	s.ready()
	s.verdict.Store(problem.Of(problem.GateUnavailable))
	s.turn(true)
	var group sync.WaitGroup
	group.Go(func() { s.requested() }) // asks in vain, for as long as work on an app may take
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

// TestSwitchedOffAndOn: a gate that is switched off and on again is engaged only once the
// ingress has the route that was written last. Until then the ingress may have a gated route
// from before, and still take up the open one. No request without a key is served while the
// gate is engaged.
func TestSwitchedOffAndOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var pauses []time.Duration
	for i := range 12 {
		pauses = append(pauses, time.Duration(i)*30*time.Millisecond)
	}
	s.switchOffAndOn(pauses, 500*time.Millisecond)
}

// TestSwitchedOften is TestSwitchedOffAndOn with 200 switches up to 3 s apart, on ingresses
// that take up changes fast and slowly. Many apps are switched at the same time.
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

// switchOffAndOn switches the gate off, and on again after each pause. It fails if a request
// without a key is served while the gate is engaged, within watch after each switch.
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

// TestEarlierCheckers: while there is a checker of a release whose proofs name no
// generation, such a proof shows that a gate is in place.
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
		s.tick() // one more, in case each has lost a race to the other
		want := app.Ungated
		if on {
			want = app.Engaged
		}
		s.wantGate(want, "")
	}
}

// overtaken lets another replica work between the look at the objects and that at the
// document.
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

// TestEngagedByAnother: objects that another replica has written since they were looked
// at do not look like changes from outside.
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
		t.Errorf("engaged since %v, and taken for changed until %v", engaged, got)
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
		{"nothing new", pending, pending, app.Gate{State: app.Pending, Since: later}, app.Gate{}, errSame},
		{"switched off meanwhile", off, pending, app.Gate{State: app.Engaged, Since: later}, app.Gate{}, errOvertaken},
		{"off and on again meanwhile", again, pending, app.Gate{State: app.Engaged, Since: later}, app.Gate{}, errOvertaken},
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
