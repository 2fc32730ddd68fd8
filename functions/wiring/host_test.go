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

func (s *site) moveTo(host string) {
	s.Helper()
	_, err := s.store.UpdateApp(s.Context(), s.ref, func(a app.App) (app.App, error) {
		a.Host, a.Gate = host, a.Gate.Renew(time.Now())
		return a, nil
	})
	check.OK(s, err)
}

// serves waits until a request without a key to a host returns a status. It fails if a gated app
// responds in the meantime.
func (s *site) serves(host string, want int) {
	s.Helper()
	s.host = host
	s.within(func() string {
		status, _ := s.request(nil)
		if status == http.StatusOK && want != http.StatusOK && s.app().RequireAPIKey {
			s.Fatalf("%s responds without a key", host)
		}
		if status != want {
			return host + " answers " + strconv.Itoa(status)
		}
		return ""
	})
}

// TestHostChange tests that the app is served only on its new host, and that the gate is proven
// there (promise G2).
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
				t.Errorf("route before the resync: got %d, want %d", got, cluster.RouteElsewhere)
			}
			s.wantGate(app.Pending, "")
			s.settles(app.Engaged, "")
			s.serves("third-"+first, http.StatusUnauthorized)
			if status, _ := s.request(map[string]string{"X-Api-Key": "good"}); status != http.StatusOK {
				t.Errorf("status with a key: got %d, want 200", status)
			}
			s.serves("second-"+first, http.StatusNotFound)
		})
	}
}
