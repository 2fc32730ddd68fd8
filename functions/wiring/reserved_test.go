package wiring

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestDecideReserved(t *testing.T) {
	t.Parallel()
	said := app.Gate{State: app.Pending, Message: reservedMessage}
	tests := []struct {
		name string
		a    app.App
		seen cluster.State
		want transition
	}{
		{name: "gated", a: app.App{RequireAPIKey: true, Gate: app.Gate{State: app.Engaged}}, seen: gated, want: transition{steps: []step{removeRoute}, refused: true}},
		{name: "open", a: app.App{Gate: app.Gate{State: app.Ungated}}, seen: open, want: transition{steps: []step{removeRoute}, refused: true}},
		{
			name: "moving", a: app.App{RequireAPIKey: true, Gate: said}, seen: with(gated, func(s *cluster.State) { s.Former = cluster.RouteGated }),
			want: transition{steps: []step{removeRoute, removeFormer}},
		},
		{
			name: "without a workload", a: app.App{RequireAPIKey: true, Gate: said},
			want: transition{steps: []step{makeNamespace, applyService, applyDeployment}},
		},
		{name: "done", a: app.App{RequireAPIKey: true, Gate: said}, seen: with(gated, func(s *cluster.State) { s.Route = cluster.RouteAbsent })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := decide(tt.a, tt.seen, true, true)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(transition{})); diff != "" {
				t.Errorf("transition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReservedHost(t *testing.T) {
	t.Parallel()
	for _, gate := range []bool{true, false} {
		t.Run("gate "+strconv.FormatBool(gate), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.ready()
			before, status := app.Ungated, http.StatusOK
			if gate {
				before, status = app.Engaged, http.StatusUnauthorized
				s.turn(true)
			}
			s.settles(before, "")

			s.cfg.BaseURL, s.cfg.ExtraHosts = "https://sluice.example.com", []string{"login." + s.app().Host}
			s.service = s.replica()
			s.settles(refusedState(s.app()), reservedMessage)
			s.answers(http.StatusNotFound)
			if got := s.state(); got.Route != cluster.RouteAbsent || got.Service != cluster.Right || got.Deployment != cluster.Right {
				t.Errorf("objects: %+v", got)
			}
			s.tick()
			if n := s.reserved(); n != 1 {
				t.Errorf("reserved hosts: got %v", n)
			}

			s.cfg.ExtraHosts = nil
			s.service = s.replica()
			s.settles(before, "")
			s.answers(status)
		})
	}
}

func (s *site) reserved() float64 {
	s.Helper()
	n, ok := functest.Metrics(s, s.service.Collectors()...)["sluice_wiring_reserved_hosts"]
	if !ok {
		s.Fatal("the metric is missing")
	}
	return n
}
