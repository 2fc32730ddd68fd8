package wiring

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reconcile"
)

// TestTickRepairs takes each of an app's objects away in turn.
func TestTickRepairs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.tick()
	if diff := cmp.Diff(open, s.state()); diff != "" {
		t.Errorf("an app that was only recorded (-want +got):\n%s", diff)
	}
	if err := s.cluster.Delete(t.Context(), s.ref); err != nil {
		t.Fatal(err)
	}
	s.tick()
	if diff := cmp.Diff(open, s.state()); diff != "" {
		t.Errorf("an app whose objects were deleted (-want +got):\n%s", diff)
	}
	_, err := s.store.UpdateApp(t.Context(), s.ref, func(a app.App) (app.App, error) {
		a.Image, a.Revision = "registry.example/hello:v2", 2
		return a, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.tick()
	if diff := cmp.Diff(open, s.state()); diff != "" {
		t.Errorf("an app with a new image (-want +got):\n%s", diff)
	}
	got, err := s.cluster.Rollout(t.Context(), s.ref)
	if err != nil || got.Image != "registry.example/hello:v2" || got.Revision != 2 {
		t.Errorf("rollout %+v, %v", got, err)
	}
}

// TestManyApps has more apps than workers, most of which cannot be proven: the
// one that can is not kept waiting for them.
func TestManyApps(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.ProofPatience = time.Minute // long after it was switched, none of it is left
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
	t.Logf("a tick over 12 apps that cannot be proven and one new: %v", time.Since(start))
	if got := time.Since(start); got > 2*reconcile.Timeout { // if each of the 12 were waited for, 4 workers would take 3 times one's time
		t.Errorf("the tick took %v", got)
	}
	want := open
	want.CA = cluster.Right // the others' too
	if diff := cmp.Diff(want, s.state()); diff != "" {
		t.Errorf("the app that waits for nothing (-want +got):\n%s", diff)
	}
	for a, err := range s.store.AllApps(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if a.RequireAPIKey && (a.Gate.State != app.Pending || a.Gate.Message == "") {
			t.Errorf("gate of %s: %+v", a.Ref(), a.Gate)
		}
	}
}

func TestEventsThatSayNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, e := range []struct{ kind, subject string }{
		{"some.other.type", s.ref.String()}, {app.GateRequested, ""}, {app.GateRequested, "../../x"}, {app.GateRequested, "none.none"},
	} {
		if err := s.service.Receive(t.Context(), event(e.kind, e.subject)); err != nil {
			t.Errorf("%v: %v, want it taken, since a retry can't help", e, err)
		}
	}
}

// deleting deletes the app's document just before the route is written.
type deleting struct {
	*cluster.Cluster
	delete func()
}

func (d *deleting) ApplyRoute(ctx context.Context, o cluster.Objects, a app.App, gated bool) error {
	d.delete()
	return d.Cluster.ApplyRoute(ctx, o, a, gated)
}

func TestDeletedWhileItIsWorkedOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.service.cluster = &deleting{s.cluster, func() {
		if err := s.store.DeleteApp(t.Context(), s.ref); err != nil && !problem.Is(err, problem.NotFound) {
			t.Error(err)
		}
	}}
	s.tick()
	seen, err := s.cluster.Objects(t.Context(), s.ref)
	if err != nil || !seen.None() {
		t.Errorf("objects of an app that is gone: %v", err)
	}
}

// failing cannot write routes.
type failing struct{ *cluster.Cluster }

func (failing) ApplyRoute(context.Context, cluster.Objects, app.App, bool) error {
	return problem.Of(problem.Unavailable)
}

func TestClusterInTheWay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.tick()
	s.turn(true)
	s.service.cluster = failing{s.cluster}
	s.tick()
	s.wantGate(app.Pending, stuckMessage)
}
