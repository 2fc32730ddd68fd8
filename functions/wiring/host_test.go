package wiring

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/tests/check"
)

// moveTo changes the app's host, as the apps function does.
func (s *site) moveTo(host string) {
	s.Helper()
	_, err := s.store.UpdateApp(s.Context(), s.ref, func(a app.App) (app.App, error) {
		a.Host, a.Gate = host, a.Gate.Renew(time.Now())
		return a, nil
	})
	check.OK(s, err)
}

// serves waits until the ingress returns a status for a host, without a key. It fails if the
// app answers in the meantime although it is gated.
func (s *site) serves(host string, want int) {
	s.Helper()
	s.host = host
	s.within(func() string {
		status, _ := s.request(nil)
		if status == http.StatusOK && want != http.StatusOK && s.app().RequireAPIKey {
			s.Fatalf("%s answers without a key", host)
		}
		if status != want {
			return host + " answers " + strconv.Itoa(status)
		}
		return ""
	})
}

// TestHostChange: an app whose host changes is served on the new host only, and its gate is
// engaged once that host is proven (promise G2).
func TestHostChange(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]cluster.RouteKind{"IngressRoute": cluster.TraefikRoutes, "HTTPRoute": cluster.GatewayTraefikRoutes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := siteOf(t, kind)
			s.ready()
			first := s.host
			s.moveTo("second-" + first)
			s.requested()
			s.serves("second-"+first, http.StatusOK)
			s.serves(first, http.StatusNotFound)

			s.turn(true)
			s.settles(app.Engaged, "")
			s.moveTo("third-" + first)
			if got := s.state().Route; got != cluster.RouteElsewhere {
				t.Errorf("before wiring acts, the route is %d, want %d", got, cluster.RouteElsewhere)
			}
			s.wantGate(app.Pending, "")
			s.settles(app.Engaged, "")
			s.serves("third-"+first, http.StatusUnauthorized)
			if status, _ := s.request(map[string]string{"X-Api-Key": "good"}); status != http.StatusOK {
				t.Errorf("with a key: status %d", status)
			}
			s.serves("second-"+first, http.StatusNotFound)
		})
	}
}
