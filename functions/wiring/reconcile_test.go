package wiring

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reconcile"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const right, absent, differs = cluster.Right, cluster.Absent, cluster.Differs
	tests := []struct {
		name string
		on   bool // Require API key
		gate app.GateState
		seen cluster.State
		due  bool
		want transition
	}{
		{name: "ungated and in place", gate: app.Ungated, seen: open},
		{name: "ungated is never proven again", gate: app.Ungated, seen: open, due: true},
		{
			name: "nothing there", gate: app.Ungated, seen: cluster.State{},
			want: transition{steps: []step{makeNamespace, applyService, applyDeployment, openRoute}},
		},
		{
			name: "service changed", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Service = differs }),
			want: transition{steps: []step{applyService}},
		},
		{
			name: "image changed", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Deployment = differs }),
			want: transition{steps: []step{applyDeployment}},
		},
		{name: "gate put on an ungated app's route", gate: app.Ungated, seen: gated, want: transition{steps: []step{openRoute}}},
		{
			name: "middleware left behind", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Middleware = right }),
			want: transition{prove: proveReleased, after: []step{deleteMiddleware}},
		},

		{name: "switched on", on: true, gate: app.Pending, seen: open, want: transition{steps: []step{writeCA, writeMiddleware, gateRoute}}},
		{
			name: "switched on, nothing there", on: true, gate: app.Pending, seen: cluster.State{},
			want: transition{steps: []step{makeNamespace, applyService, applyDeployment, writeCA, writeMiddleware, gateRoute}},
		},
		{
			name: "half done", on: true, gate: app.Pending, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteOpen }),
			want: transition{steps: []step{gateRoute}},
		},
		{name: "wired, not proven", on: true, gate: app.Pending, seen: gated, want: transition{prove: proveEngaged, after: []step{removeGenerations}}},
		{
			name: "switched off and on before the route was opened", on: true, gate: app.Pending,
			seen: with(gated, func(s *cluster.State) { s.Middleware, s.Route = cluster.Outdated, cluster.RouteOutdated }),
			want: transition{steps: []step{writeMiddleware, gateRoute}},
		},
		{
			name: "engaged by an earlier release", on: true, gate: app.Engaged,
			seen: with(gated, func(s *cluster.State) { s.Middleware, s.Route = cluster.Outdated, cluster.RouteOutdated }),
			want: transition{steps: []step{writeMiddleware, gateRoute}},
		},
		{name: "engaged", on: true, gate: app.Engaged, seen: gated},
		{name: "engaged, to be proven again", on: true, gate: app.Engaged, seen: gated, due: true, want: transition{prove: proveEngaged}},
		{
			name: "engaged, gate off the route", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteOpen }),
			want: transition{drifted: true, steps: []step{gateRoute}},
		},
		{
			name: "engaged, route gone", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteAbsent }),
			want: transition{drifted: true, steps: []step{gateRoute}},
		},
		{
			name: "engaged, middleware changed", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Middleware = differs }), due: true,
			want: transition{drifted: true, steps: []step{writeMiddleware}},
		},
		{
			name: "engaged, CA gone", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.CA = absent }),
			want: transition{drifted: true, steps: []step{writeCA}},
		},
		{
			name: "engaged, CA renewed", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.CA = differs }),
			want: transition{steps: []step{writeCA}},
		},
		{
			name: "engaged, new image", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Deployment = differs }),
			want: transition{steps: []step{applyDeployment}},
		},

		{name: "switched off", gate: app.Releasing, seen: gated, want: transition{steps: []step{openRoute}}},
		{
			name: "off the route", gate: app.Releasing, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteOpen }),
			want: transition{prove: proveReleased, after: []step{deleteMiddleware}},
		},
		{
			name: "engaged, and to be opened to the app", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteClosed }),
			want: transition{steps: []step{gateRoute}},
		},
		{
			name: "engaged by a former route", on: true, gate: app.Engaged, seen: with(open, func(s *cluster.State) { s.Route, s.Former = cluster.RouteAbsent, cluster.RouteGated }),
			want: transition{steps: []step{writeCA, writeMiddleware, gateRoute}},
		},
		{
			name: "moved, not taken up", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Former, s.Untaken = cluster.RouteGated, true }),
		},
		{
			name: "moved and taken up", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Former = cluster.RouteGated }),
			want: transition{prove: proveEngaged, after: []step{removeFormer}},
		},
		{
			name: "moved while it was switched on", on: true, gate: app.Pending, seen: with(gated, func(s *cluster.State) { s.Former = cluster.RouteOpen }),
			want: transition{steps: []step{removeFormer}},
		},
		{
			name: "former route changed by others", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Former = cluster.RouteDiffers }),
			want: transition{steps: []step{removeFormer}},
		},
		{
			name: "former route gone, its gate not", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Former = cluster.RouteClosed }),
			want: transition{prove: proveEngaged, after: []step{removeFormer}},
		},
		{
			name: "rewritten in place", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Route, s.Former = cluster.RouteDiffers, cluster.RouteClosed }),
			want: transition{steps: []step{gateRoute}},
		},
		{
			name: "moved ungated", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Former = cluster.RouteOpen }),
			want: transition{prove: proveReleased, after: []step{removeFormer}},
		},
		{
			name: "moved while it was switched off", gate: app.Releasing, seen: with(open, func(s *cluster.State) { s.Former, s.Middleware = cluster.RouteGated, right }),
			want: transition{steps: []step{removeFormer}},
		},
		{
			name: "host changed", on: true, gate: app.Pending,
			seen: with(gated, func(s *cluster.State) { s.Middleware, s.Route = cluster.Outdated, cluster.RouteElsewhere }),
			want: transition{steps: []step{removeRoute}},
		},
		{
			name: "host changed, former route", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Former = cluster.RouteElsewhere }),
			want: transition{steps: []step{removeFormer}},
		},
		{
			name: "engaged, route changed to another host", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteElsewhere }),
			want: transition{drifted: true, steps: []step{removeRoute}},
		},
		{name: "released but not recorded", gate: app.Releasing, seen: open, want: transition{prove: proveReleased}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := decide(app.App{RequireAPIKey: tt.on, Gate: app.Gate{State: tt.gate}}, tt.seen, tt.due, false)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(transition{})); diff != "" {
				t.Errorf("transition (-want +got):\n%s", diff)
			}
			if idle := len(tt.want.steps) == 0 && tt.want.prove == proveNothing; got.idle() != idle {
				t.Errorf("idle: got %v", got.idle())
			}
		})
	}
}

// TestGateOrder tests for all states that the parts of a gate exist while a route names them.
func TestGateOrder(t *testing.T) {
	t.Parallel()
	all := []cluster.Status{cluster.Absent, cluster.Differs, cluster.Right, cluster.Outdated}
	for _, on := range []bool{false, true} {
		for _, ca := range all {
			for _, middleware := range all {
				for route := cluster.RouteAbsent; route <= cluster.RouteElsewhere; route++ {
					for _, state := range []app.GateState{app.Ungated, app.Pending, app.Engaged, app.Releasing} {
						seen := cluster.State{Deployment: cluster.Right, Service: cluster.Right, CA: ca, Middleware: middleware, Route: route}
						checkOrder(t, on, state, seen)
					}
				}
			}
		}
	}
}

func checkOrder(t *testing.T, on bool, state app.GateState, seen cluster.State) {
	t.Helper()
	p := decide(app.App{RequireAPIKey: on, Gate: app.Gate{State: state}}, seen, true, false)
	at := map[step]int{}
	for i, s := range p.steps {
		at[s] = i + 1
	}
	switch {
	case on && at[openRoute]+at[deleteMiddleware] > 0, !on && at[gateRoute]+at[writeMiddleware]+at[writeCA] > 0, at[deleteMiddleware] > 0:
		t.Errorf("required=%v %v: steps %v", on, seen, p.steps)
	case on && at[gateRoute] > 0 && (at[gateRoute] < at[writeCA] || at[gateRoute] < at[writeMiddleware]):
		t.Errorf("%v: the route names a missing gate: %v", seen, p.steps)
	case at[deleteMiddleware]+at[removeGenerations] > 0, on && slices.Contains(p.after, deleteMiddleware), on && len(p.after) > 0 && p.prove != proveEngaged:
		t.Errorf("%v: a gate that a route may name is deleted: %+v", seen, p)
	case !on && len(p.after) > 0 && (seen.Route != cluster.RouteOpen || p.prove != proveReleased):
		t.Errorf("%v: the Middleware is deleted too early: %+v", seen, p)
	case on && len(p.steps) == 0 && seen != gated:
		t.Errorf("%v: no steps", seen)
	}
}

// TestDecideForKnative tests that an app's superseded objects are removed first, and that the
// Middleware exists before its route.
func TestDecideForKnative(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		on   bool
		gate app.GateState
		seen cluster.State
		want transition
	}{
		{
			name: "ready to take over", gate: app.Ungated,
			seen: cluster.State{Deployment: cluster.Right, Service: cluster.Right, Route: cluster.RouteOpen, Superseded: true},
			want: transition{steps: []step{removeSuperseded}},
		},
		{
			name: "taken over, the route not yet", gate: app.Ungated,
			seen: cluster.State{Deployment: cluster.Right, Service: cluster.Right, Route: cluster.RouteDiffers, HostStale: true},
			want: transition{steps: []step{writeHost, openRoute}},
		},
		{
			name: "gated", on: true, gate: app.Engaged,
			seen: cluster.State{
				Deployment: cluster.Right, Service: cluster.Right, CA: cluster.Right, Middleware: cluster.Right,
				Route: cluster.RouteDiffers, HostStale: true,
			},
			want: transition{drifted: true, steps: []step{writeHost, gateRoute}},
		},
		{
			name: "gated, but public at Knative's gateway", on: true, gate: app.Engaged,
			seen: with(gated, func(s *cluster.State) { s.Public = true }),
			want: transition{drifted: true, steps: []step{hideKnative}},
		},
		{
			name: "switched on", on: true, gate: app.Pending,
			seen: with(open, func(s *cluster.State) { s.Public = true }),
			want: transition{steps: []step{writeCA, writeMiddleware, gateRoute, hideKnative}},
		},
		{name: "gated and hidden", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Hidden = true })},
		{
			name: "off the route, still hidden", gate: app.Releasing,
			seen: with(open, func(s *cluster.State) { s.Middleware, s.Hidden = cluster.Right, true }),
			want: transition{prove: proveReleased, after: []step{showKnative, deleteMiddleware}},
		},
		{name: "public and ungated", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Public = true })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := app.App{RequireAPIKey: tt.on, Gate: app.Gate{State: tt.gate}}
			got := decide(a, tt.seen, false, false)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(transition{})); diff != "" {
				t.Errorf("transition (-want +got):\n%s", diff)
			}
		})
	}
}

func with(s cluster.State, change func(*cluster.State)) cluster.State {
	change(&s)
	return s
}

func TestTickRepairs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.tick()
	check.Equal(t, "an app that was only recorded", open, s.state())
	check.OK(t, s.cluster.Delete(t.Context(), s.ref))
	s.tick()
	check.Equal(t, "an app whose objects were deleted", open, s.state())
	_, err := s.store.UpdateApp(t.Context(), s.ref, func(a app.App) (app.App, error) {
		a.Image, a.Revision = "registry.example/hello:v2", 2
		return a, nil
	})
	check.OK(t, err)
	s.tick()
	check.Equal(t, "an app with a new image", open, s.state())
	w, err := s.cluster.Workload(t.Context(), s.ref)
	if err != nil || !w.Runs(app.App{Name: s.ref.Name, Image: "registry.example/hello:v2", Revision: 2, Port: 8080}) {
		t.Errorf("workload: got %+v, %v", w.Observation(), err)
	}
}

// TestManyApps tests that apps without a proof do not delay an app that can be proven.
func TestManyApps(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience = time.Minute // expired long after the switch
	s.service = s.replica()
	for i := range 12 {
		ref := s.makeApp(fmt.Sprintf("stuck-%d", i))
		if _, err := s.store.UpdateApp(t.Context(), ref, func(a app.App) (app.App, error) {
			// Switched on an hour ago, and never proven.
			a.RequireAPIKey, a.Gate = true, app.Gate{State: app.Pending, Since: time.Now().Add(-time.Hour)}
			return a, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	s.tick()
	t.Logf("resync of 12 apps without a proof and one new: %v", time.Since(start))
	if got := time.Since(start); got > 2*reconcile.Timeout { // waiting for all 12 would take 4 workers three times that
		t.Errorf("the resync took %v", got)
	}
	want := open
	want.CA = cluster.Right
	check.Equal(t, "the new app", want, s.state())
	for a, err := range s.store.AllApps(t.Context()) {
		check.OK(t, err)
		if a.RequireAPIKey && (a.Gate.State != app.Pending || a.Gate.Message == "") {
			t.Errorf("gate of %s: %+v", a.Ref(), a.Gate)
		}
	}
}

func TestInvalidEventsAreIgnored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, e := range []struct{ kind, subject string }{
		{"some.other.type", s.ref.String()}, {app.GateRequested, ""}, {app.GateRequested, "../../x"}, {app.GateRequested, "none.none"},
	} {
		if err := s.service.Receive(t.Context(), event(e.kind, e.subject)); err != nil {
			t.Errorf("%v: got %v, want no error, since a retry cannot help", e, err)
		}
	}
}

func TestDeletedRoleBindingIsRestored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.tick() // creates the namespace
	s.tick()
	bindings := s.kube.RbacV1().RoleBindings(s.ref.Namespace)
	for _, function := range []string{"apps", "builds", "deploys", "wiring"} {
		name := "sluice-" + function + "-environment"
		check.OK(t, bindings.Delete(t.Context(), name, metav1.DeleteOptions{}))
		s.tick()
		got, err := bindings.Get(t.Context(), name, metav1.GetOptions{})
		check.OK(t, err)
		if len(got.Subjects) != 1 || got.Subjects[0].Name != function || got.Subjects[0].Namespace != s.cfg.SystemNamespace || got.RoleRef.Name != name {
			t.Errorf("%s: got %v for %v", name, got.RoleRef, got.Subjects)
		}
	}
}

// failingGrants fails to restore RoleBindings.
type failingGrants struct{ *cluster.Cluster }

func (failingGrants) RestoreGrants(context.Context, iter.Seq[string]) ([]app.Ref, error) {
	return nil, problem.FromCode(problem.Unavailable)
}

func TestResyncContinuesIfGrantsFail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.service.cluster = failingGrants{s.cluster}
	s.tick()
	if got := s.state(); got.Service != cluster.Right || got.Route != cluster.RouteOpen {
		t.Errorf("got %+v, want a Service and an open route", got)
	}
}

type deleting struct {
	*cluster.Cluster
	delete func()
}

func (d *deleting) ApplyRoute(ctx context.Context, o cluster.Objects, a app.App, gated bool) error {
	d.delete()
	return d.Cluster.ApplyRoute(ctx, o, a, gated)
}

func TestDeletedDuringWork(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.service.cluster = &deleting{s.cluster, func() {
		if err := storetest.DeleteApp(t.Context(), s.store, s.ref); err != nil && !problem.Is(err, problem.NotFound) {
			t.Error(err)
		}
	}}
	s.tick()
	seen, err := s.cluster.Objects(t.Context(), s.ref)
	if err != nil || !seen.None() {
		t.Errorf("objects of a deleted app: %v", err)
	}
}

type failing struct{ *cluster.Cluster }

func (failing) ApplyRoute(context.Context, cluster.Objects, app.App, bool) error {
	return problem.FromCode(problem.Unavailable)
}

func TestClusterErrorIsRecorded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.tick()
	s.turn(true)
	s.service.cluster = failing{s.cluster}
	s.tick()
	s.wantGate(app.Pending, blockedMessage)
}
