package wiring

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
)

// TestDecideForKnative: an app that Knative takes over makes room first, and no route
// leads to Knative before its Middleware does.
func TestDecideForKnative(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		on   bool
		gate app.GateState
		seen cluster.State
		want plan
	}{
		{
			name: "ready to take over", gate: app.Ungated,
			seen: cluster.State{Deployment: cluster.Right, Service: cluster.Right, Route: cluster.RouteOpen, Superseded: true},
			want: plan{steps: []step{removeSuperseded}},
		},
		{
			name: "taken over, the route not yet", gate: app.Ungated,
			seen: cluster.State{Deployment: cluster.Right, Service: cluster.Right, Route: cluster.RouteDiffers, HostStale: true},
			want: plan{steps: []step{writeHost, openRoute}},
		},
		{
			name: "gated", on: true, gate: app.Engaged,
			seen: cluster.State{
				Deployment: cluster.Right, Service: cluster.Right, CA: cluster.Right, Middleware: cluster.Right,
				Route: cluster.RouteDiffers, HostStale: true,
			},
			want: plan{drifted: true, steps: []step{writeHost, gateRoute}},
		},
		{
			name: "gated, but public at Knative's gateway", on: true, gate: app.Engaged,
			seen: onKnative(gated, func(s *cluster.State) { s.Public = true }),
			want: plan{drifted: true, steps: []step{hideKnative}},
		},
		{
			name: "switched on", on: true, gate: app.Pending,
			seen: onKnative(open, func(s *cluster.State) { s.Public = true }),
			want: plan{steps: []step{writeCA, writeMiddleware, gateRoute, hideKnative}},
		},
		{name: "gated and hidden", on: true, gate: app.Engaged, seen: onKnative(gated, func(s *cluster.State) { s.Hidden = true })},
		{
			name: "off the route, still hidden", gate: app.Releasing,
			seen: onKnative(open, func(s *cluster.State) { s.Middleware, s.Hidden = cluster.Right, true }),
			want: plan{prove: proveReleased, after: []step{showKnative, deleteMiddleware}},
		},
		{name: "public and ungated", gate: app.Ungated, seen: onKnative(open, func(s *cluster.State) { s.Public = true })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := app.App{RequireAPIKey: tt.on, Gate: app.Gate{State: tt.gate}}
			got := decide(a, tt.seen, false)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func onKnative(s cluster.State, change func(*cluster.State)) cluster.State {
	change(&s)
	return s
}
