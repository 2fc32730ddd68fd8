package wiring

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/tests/check"
)

// watch calls the app with and without a key until stop is called. stop returns the numbers of
// requests that passed without a key, that were denied with a key, and of all.
func (s *site) watch() (stop func() (open, refused, asked int64)) {
	s.Helper()
	var open, refused, asked atomic.Int64
	var group sync.WaitGroup
	end := make(chan struct{})
	for range 2 {
		group.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-end:
					return
				case <-pace.C:
				}
				if status, _ := s.request(nil); status == http.StatusOK {
					open.Add(1)
				}
				if status, _ := s.request(map[string]string{"X-Api-Key": "good"}); status != http.StatusOK {
					refused.Add(1)
				}
				asked.Add(1)
			}
		})
	}
	return func() (int64, int64, int64) {
		close(end)
		group.Wait()
		return open.Load(), refused.Load(), asked.Load()
	}
}

func (s *site) moved() {
	s.Helper()
	s.within(func() string {
		s.tick()
		if former := s.state().Former; former != cluster.RouteAbsent {
			return "the former route is " + strconv.Itoa(int(former))
		}
		return ""
	})
}

func TestMoveToAnotherKind(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ready()
	s.turn(true)
	s.requested()
	s.settles(app.Engaged, "")
	since := s.app().Gate.Since
	stop := s.watch()
	for _, step := range []struct{ kind, former cluster.RouteKind }{
		{cluster.GatewayTraefikRoutes, cluster.TraefikRoutes}, {cluster.TraefikRoutes, cluster.GatewayTraefikRoutes},
	} {
		s.writes(step.kind, step.former)
		s.moved()
		s.settles(app.Engaged, "")
	}
	open, refused, asked := stop()
	t.Logf("%d requests each: %d passed without a key, %d were denied with a key", asked, open, refused)
	if open > 0 || asked < 20 {
		t.Errorf("%d of %d requests passed without a key", open, asked)
	}
	if refused > 0 {
		t.Errorf("%d of %d requests with a key were denied", refused, asked)
	}
	if got := s.app().Gate.Since; !got.Equal(since) {
		t.Error("the gate was pending during the move")
	}
}

// TestMoveWithASwitch tests that a former route with another gate setting is deleted immediately.
func TestMoveWithASwitch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ready()
	s.turn(true)
	s.writes(cluster.GatewayTraefikRoutes, cluster.TraefikRoutes)
	s.settles(app.Engaged, "")
	if got := s.state(); got.Former != cluster.RouteAbsent || got.Route != cluster.RouteGated {
		t.Errorf("switched on: %+v", got)
	}
	s.turn(false)
	s.writes(cluster.TraefikRoutes, cluster.GatewayTraefikRoutes)
	s.settles(app.Ungated, "")
	if got := s.state(); got.Former != cluster.RouteAbsent || got.Route != cluster.RouteOpen {
		t.Errorf("switched off: %+v", got)
	}
	s.answers(http.StatusOK) // the ingress may have removed the former route first
}

func TestMissingMiddleware(t *testing.T) {
	t.Parallel()
	s := siteOf(t, cluster.GatewayTraefikRoutes)
	s.ready()
	s.turn(true)
	s.requested()
	s.settles(app.Engaged, "")
	middlewares := s.dynamic.Resource(schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "middlewares"}).Namespace(s.ref.Namespace)
	check.OK(t, middlewares.DeleteCollection(t.Context(), metav1.DeleteOptions{}, listAll()))
	s.within(func() string {
		status, _ := s.request(nil)
		if status == http.StatusOK {
			t.Fatal("the app responds without a key")
		}
		if status == http.StatusUnauthorized {
			return "the gate still answers"
		}
		t.Logf("Traefik returns %d", status)
		return ""
	})
	if status, _ := s.request(map[string]string{"X-Api-Key": "good"}); status == http.StatusOK {
		t.Error("the app responds although its gate is missing")
	}
	s.settles(app.Engaged, "") // restored and proven again
}
