package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/storetest"
)

type hostWorld struct {
	*testing.T
	*store.Store
}

func newHostWorld(t *testing.T) hostWorld {
	t.Helper()
	w := hostWorld{t, storetest.New(t)}
	for i, project := range []string{"shop", "bank"} {
		w.project(project, time.Duration(i))
	}
	return w
}

func (w hostWorld) project(name string, later time.Duration) {
	w.Helper()
	made := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(later)
	wantProblem(w.T, "create project", w.CreateProject(w.Context(), app.Project{Name: name, Members: map[string]app.Role{"ada": app.Owner}, CreatedAt: made}), "")
	wantProblem(w.T, "create environment", w.CreateEnvironment(w.Context(), app.Environment{Project: name, Name: "prod", Namespace: name + "-prod", CreatedAt: made}), "")
}

func (w hostWorld) claim(project, name, host string) error {
	a := newApp(project, "prod", name)
	a.Host = host
	return w.CreateApp(w.Context(), a, storetest.First(a))
}

func (w hostWorld) giveUp(project, name string) error {
	return storetest.DeleteApp(w.Context(), w.Store, app.Ref{Namespace: project + "-prod", Name: name})
}

func (w hostWorld) move(name, host string) error {
	_, err := w.UpdateApp(w.Context(), app.Ref{Namespace: "shop-prod", Name: name}, func(a app.App) (app.App, error) {
		a.Host = host
		return a, nil
	})
	return err
}

func TestReleasedHost(t *testing.T) {
	t.Parallel()
	w := newHostWorld(t)
	const host = "www.example.com"
	wantProblem(t, "claim", w.claim("shop", "hello", host), "")
	wantProblem(t, "claim of another project", w.claim("bank", "hello", host), problem.HostTaken)
	wantProblem(t, "release of a host in use", w.ReleaseReservation(t.Context(), host), problem.NotFound)
	wantProblem(t, "delete", w.giveUp("shop", "hello"), "")

	wantProblem(t, "claim of another project", w.claim("bank", "hello", host), problem.HostReserved)
	wantProblem(t, "claim of its project", w.claim("shop", "again", host), "")
	wantProblem(t, "delete again", w.giveUp("shop", "again"), "")
	all, next, err := w.Reservations(t.Context(), store.Page{Size: 10})
	if err != nil || next != "" || len(all) != 1 || all[0].Host != host || all[0].App != "shop-prod.again" || all[0].Project != "shop" || time.Until(all[0].Until).Round(time.Hour) != store.HostReserved {
		t.Errorf("reservations: got %+v, %q, %v, want one for 30 days", all, next, err)
	}
	wantProblem(t, "release", w.ReleaseReservation(t.Context(), host), "")
	wantProblem(t, "release again", w.ReleaseReservation(t.Context(), host), problem.NotFound)
	wantProblem(t, "claim of a released host", w.claim("bank", "hello", host), "")
}

func TestReservationOfDeletedProject(t *testing.T) {
	t.Parallel()
	w := newHostWorld(t)
	const host = "www.example.com"
	wantProblem(t, "claim", w.claim("shop", "hello", host), "")
	wantProblem(t, "delete", w.giveUp("shop", "hello"), "")
	wantProblem(t, "delete environment", storetest.DeleteEnvironment(t.Context(), w.Store, "shop", "prod"), "")
	wantProblem(t, "delete project", storetest.DeleteProject(t.Context(), w.Store, "shop"), "")
	wantProblem(t, "release namespace", w.ReleaseNamespace(t.Context(), "shop-prod"), "")
	w.project("shop", time.Hour)
	wantProblem(t, "claim of a later project", w.claim("shop", "hello", host), problem.HostReserved)
}

func TestReservationEnds(t *testing.T) {
	t.Parallel()
	w := newHostWorld(t)
	for _, host := range []string{"a.example.com", "b.example.com"} {
		wantProblem(t, "claim", w.claim("shop", host[:1], host), "")
		wantProblem(t, "delete", w.giveUp("shop", host[:1]), "")
	}
	end := time.Now().Add(store.HostReserved)
	prune := func(before time.Time, want int) {
		t.Helper()
		if n, err := w.DeleteReservations(t.Context(), before, 10); err != nil || n != want {
			t.Errorf("got %d deleted reservations, %v, want %d", n, err, want)
		}
	}
	prune(end.Add(-time.Hour), 0)
	w.SetClock(func() time.Time { return end.Add(time.Minute) })
	wantProblem(t, "claim of an expired reservation", w.claim("bank", "a", "a.example.com"), "")
	prune(end.Add(time.Minute), 1)
	wantProblem(t, "claim of a pruned reservation", w.claim("bank", "b", "b.example.com"), "")
	prune(end.Add(time.Hour), 0)
	wantProblem(t, "claim of a host in use", w.claim("shop", "a", "a.example.com"), problem.HostTaken)
}

func TestChangedHost(t *testing.T) {
	t.Parallel()
	w := newHostWorld(t)
	wantProblem(t, "claim", w.claim("shop", "hello", "old.example.com"), "")
	wantProblem(t, "claim of another project", w.claim("bank", "hello", "taken.example.com"), "")
	wantProblem(t, "change to a host in use", w.move("hello", "taken.example.com"), problem.HostTaken)
	wantProblem(t, "change", w.move("hello", "new.example.com"), "")
	for host, want := range map[string]problem.Code{"old.example.com": problem.HostReserved, "new.example.com": problem.HostTaken} {
		wantProblem(t, "claim "+host, w.claim("bank", "other", host), want)
	}
	wantProblem(t, "change back", w.move("hello", "old.example.com"), "")
	wantProblem(t, "claim the host of between", w.claim("bank", "other", "new.example.com"), problem.HostReserved)
}

func TestReservationLimit(t *testing.T) {
	t.Parallel()
	w := newHostWorld(t)
	wantProblem(t, "claim", w.claim("shop", "hello", "h0.example.com"), "")
	for i := 1; i <= 100; i++ {
		wantProblem(t, "change", w.move("hello", fmt.Sprintf("h%d.example.com", i)), "")
	}
	a, err := w.App(t.Context(), "shop-prod", "hello")
	wantProblem(t, "read", err, "")
	wantProblem(t, "check", w.CheckRelease(t.Context(), a), problem.TooManyHosts)
	wantProblem(t, "change", w.move("hello", "more.example.com"), problem.TooManyHosts)
	wantProblem(t, "delete", w.giveUp("shop", "hello"), problem.TooManyHosts)
	wantProblem(t, "release", w.ReleaseReservation(t.Context(), "h7.example.com"), "")
	wantProblem(t, "delete with room", w.giveUp("shop", "hello"), "")

	w.SetClock(func() time.Time { return time.Now().Add(store.HostReserved + time.Minute) })
	wantProblem(t, "claim later", w.claim("shop", "later", "later.example.com"), "")
	wantProblem(t, "delete later", w.giveUp("shop", "later"), "")
	if all, _, err := w.Reservations(t.Context(), store.Page{Size: 10}); err != nil || len(all) != 1 {
		t.Errorf("reservations: got %+v, %v, want one", all, err)
	}
}
