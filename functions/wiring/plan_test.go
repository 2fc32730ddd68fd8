package wiring

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const right, absent, differs = cluster.Right, cluster.Absent, cluster.Differs
	with := func(s cluster.State, change func(*cluster.State)) cluster.State { change(&s); return s }
	tests := []struct {
		name string
		on   bool // Require API key
		gate app.GateState
		seen cluster.State
		due  bool
		want plan
	}{
		{name: "ungated and in place", gate: app.Ungated, seen: open},
		{name: "ungated is never proven again", gate: app.Ungated, seen: open, due: true},
		{
			name: "nothing there", gate: app.Ungated, seen: cluster.State{},
			want: plan{steps: []step{makeNamespace, applyService, applyDeployment, openRoute}},
		},
		{
			name: "service changed", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Service = differs }),
			want: plan{steps: []step{applyService}},
		},
		{
			name: "image changed", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Deployment = differs }),
			want: plan{steps: []step{applyDeployment}},
		},
		{name: "gate put on an ungated app's route", gate: app.Ungated, seen: gated, want: plan{steps: []step{openRoute}}},
		{
			name: "middleware left behind", gate: app.Ungated, seen: with(open, func(s *cluster.State) { s.Middleware = right }),
			want: plan{prove: proveReleased, after: []step{deleteMiddleware}},
		},

		{name: "switched on", on: true, gate: app.Pending, seen: open, want: plan{steps: []step{writeCA, writeMiddleware, gateRoute}}},
		{
			name: "switched on, nothing there", on: true, gate: app.Pending, seen: cluster.State{},
			want: plan{steps: []step{makeNamespace, applyService, applyDeployment, writeCA, writeMiddleware, gateRoute}},
		},
		{
			name: "half done", on: true, gate: app.Pending, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteOpen }),
			want: plan{steps: []step{gateRoute}},
		},
		{name: "wired, not proven", on: true, gate: app.Pending, seen: gated, want: plan{prove: proveEngaged}},
		{name: "engaged", on: true, gate: app.Engaged, seen: gated},
		{name: "engaged, to be proven again", on: true, gate: app.Engaged, seen: gated, due: true, want: plan{prove: proveEngaged}},
		{
			name: "engaged, gate off the route", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteOpen }),
			want: plan{drifted: true, steps: []step{gateRoute}},
		},
		{
			name: "engaged, route gone", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteAbsent }),
			want: plan{drifted: true, steps: []step{gateRoute}},
		},
		{
			name: "engaged, middleware changed", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Middleware = differs }), due: true,
			want: plan{drifted: true, steps: []step{writeMiddleware}},
		},
		{
			name: "engaged, CA gone", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.CA = absent }),
			want: plan{drifted: true, steps: []step{writeCA}},
		},
		{
			name: "engaged, CA renewed", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.CA = differs }),
			want: plan{steps: []step{writeCA}},
		},
		{
			name: "engaged, new image", on: true, gate: app.Engaged, seen: with(gated, func(s *cluster.State) { s.Deployment = differs }),
			want: plan{steps: []step{applyDeployment}},
		},

		{name: "switched off", gate: app.Releasing, seen: gated, want: plan{steps: []step{openRoute}}},
		{
			name: "off the route", gate: app.Releasing, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteOpen }),
			want: plan{prove: proveReleased, after: []step{deleteMiddleware}},
		},
		{name: "released but for the record", gate: app.Releasing, seen: open, want: plan{prove: proveReleased}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := decide(app.App{RequireAPIKey: tt.on, Gate: app.Gate{State: tt.gate}}, tt.seen, tt.due)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if idle := len(tt.want.steps) == 0 && tt.want.prove == proveNothing; got.idle() != idle {
				t.Errorf("idle is %v", got.idle())
			}
		})
	}
}

// TestGateOrder goes through every state there can be: a gate is on the route only
// after what it needs, and its Middleware goes only once no route names it.
func TestGateOrder(t *testing.T) {
	t.Parallel()
	all := []cluster.Status{cluster.Absent, cluster.Differs, cluster.Right}
	for _, on := range []bool{false, true} {
		for _, ca := range all {
			for _, middleware := range all {
				for route := cluster.RouteAbsent; route <= cluster.RouteGated; route++ {
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
	p := decide(app.App{RequireAPIKey: on, Gate: app.Gate{State: state}}, seen, true)
	at := map[step]int{}
	for i, s := range p.steps {
		at[s] = i + 1
	}
	switch {
	case on && at[openRoute]+at[deleteMiddleware] > 0, !on && at[gateRoute]+at[writeMiddleware]+at[writeCA] > 0, at[deleteMiddleware] > 0:
		t.Errorf("on=%v %v: steps %v", on, seen, p.steps)
	case on && at[gateRoute] > 0 && (at[gateRoute] < at[writeCA] || at[gateRoute] < at[writeMiddleware]):
		t.Errorf("%v: the route names the gate too early: %v", seen, p.steps)
	case len(p.after) > 0 && (on || seen.Route != cluster.RouteOpen || p.prove != proveReleased):
		t.Errorf("%v: the middleware goes too early: %+v", seen, p)
	case on && len(p.steps) == 0 && seen != gated:
		t.Errorf("%v: nothing is done", seen)
	}
}
