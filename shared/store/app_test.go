package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func newApp(project, env, name string) app.App {
	at := time.Date(2026, 3, 1, 8, 30, 0, 123000, time.UTC)
	ns := project + "-" + env
	return app.App{
		Name: name, Project: project, Environment: env, Namespace: ns, Host: name + "." + ns + ".localhost", Port: 8080,
		Image: "registry.example/" + name + ":v1", Revision: 1, Preflight: app.PreflightApp, Gate: app.Gate{State: app.Ungated, Since: at},
		CreatedAt: at, UpdatedAt: at,
	}
}

func TestApp(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	a := newApp("shop", "prod", "hello")
	wantProblem(t, "without its environment", s.CreateApp(ctx, a, storetest.First(a)), problem.NotFound)
	makeEnvironment(t, s, "shop", "prod")
	wantProblem(t, "create", s.CreateApp(ctx, a, storetest.First(a)), "")
	wantProblem(t, "again", s.CreateApp(ctx, a, storetest.First(a)), problem.AlreadyExists)

	foreign := a
	foreign.Project, foreign.Environment, foreign.Name = "shop-prod", "x", "other"
	wantProblem(t, "of a project that does not own the namespace", s.CreateApp(ctx, foreign, storetest.First(foreign)), problem.NotFound)

	git := newApp("shop", "prod", "git")
	git.Image, git.Revision = "", 0
	git.GitSource = &app.GitSource{Repository: "https://git.example/x", Branch: "main", Path: "a/b"}
	git.RequireAPIKey, git.Preflight, git.Gate = true, app.PreflightRefuse, app.Gate{State: app.Pending, Since: a.CreatedAt, Message: "soon"}
	wantProblem(t, "create a git app", s.CreateApp(ctx, git, storetest.First(git)), "")
	for _, want := range []app.App{a, git} {
		got, err := s.App(ctx, "shop-prod", want.Name)
		wantProblem(t, "read", err, "")
		check.Equal(t, "app", want, got)
	}
	_, err := s.App(ctx, "shop-prod", "none")
	wantProblem(t, "a missing app", err, problem.NotFound)
	_, err = s.App(ctx, "shop-staging", "hello")
	wantProblem(t, "in another environment", err, problem.NotFound)
}

func TestAppWithoutPreflight(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	makeEnvironment(t, s, "shop", "prod")
	a := newApp("shop", "prod", "hello")
	a.Preflight = ""
	wantProblem(t, "create", s.CreateApp(t.Context(), a, storetest.First(a)), "")
	got, err := s.App(t.Context(), "shop-prod", "hello")
	if err != nil || got.Preflight != app.PreflightApp {
		t.Errorf("preflight: got %q, %v, want %q", got.Preflight, err, app.PreflightApp)
	}
}

func TestHostsAreUnique(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	makeEnvironment(t, s, "shop", "prod")
	makeEnvironment(t, s, "bank", "prod")
	one, two := newApp("shop", "prod", "one"), newApp("bank", "prod", "two")
	two.Host = one.Host
	wantProblem(t, "create", s.CreateApp(ctx, one, storetest.First(one)), "")
	wantProblem(t, "the same host in another project", s.CreateApp(ctx, two, storetest.First(two)), problem.HostTaken)
	_, err := s.App(ctx, "bank-prod", "two")
	wantProblem(t, "rejected app", err, problem.NotFound)
	wantProblem(t, "delete", storetest.DeleteApp(ctx, s, one.Ref()), "")
	wantProblem(t, "delete it again", storetest.DeleteApp(ctx, s, one.Ref()), problem.NotFound)
	wantProblem(t, "the host of a deleted app", s.CreateApp(ctx, two, storetest.First(two)), problem.HostReserved)
}

func TestChangeHost(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	makeEnvironment(t, s, "shop", "prod")
	one, two, three := newApp("shop", "prod", "one"), newApp("shop", "prod", "two"), newApp("shop", "prod", "three")
	wantProblem(t, "create", s.CreateApp(ctx, one, storetest.First(one)), "")
	wantProblem(t, "create another", s.CreateApp(ctx, two, storetest.First(two)), "")
	move := func(host string) error {
		_, err := s.UpdateApp(ctx, one.Ref(), func(a app.App) (app.App, error) { a.Host = host; return a, nil })
		return err
	}
	wantProblem(t, "to another app's host", move(two.Host), problem.HostTaken)
	wantProblem(t, "to a free host", move("new.example.com"), "")
	three.Host = "new.example.com"
	wantProblem(t, "an app with the new host", s.CreateApp(ctx, three, storetest.First(three)), problem.HostTaken)
	three.Host = one.Host
	wantProblem(t, "an app with the former host", s.CreateApp(ctx, three, storetest.First(three)), "")
	wantProblem(t, "back", move(one.Host), problem.HostTaken)
}

func TestOneHostManyApps(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	makeEnvironment(t, s, "shop", "prod")
	var won atomic.Int32
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			a := newApp("shop", "prod", fmt.Sprintf("a%d", i))
			a.Host = "www.example.com"
			err := s.CreateApp(t.Context(), a, storetest.First(a))
			switch {
			case err == nil:
				won.Add(1)
			case !problem.Is(err, problem.HostTaken) && !problem.Is(err, problem.Conflict):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("got %d apps with the host, want 1", won.Load())
	}
}

func TestUpdateApp(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	makeEnvironment(t, s, "shop", "prod")
	a := newApp("shop", "prod", "hello")
	wantProblem(t, "create", s.CreateApp(ctx, a, storetest.First(a)), "")
	want := a
	want.RequireAPIKey, want.Gate = true, app.Gate{State: app.Pending, Since: a.CreatedAt.Add(time.Hour), Message: "m"}
	got, err := s.UpdateApp(ctx, a.Ref(), func(is app.App) (app.App, error) {
		is.RequireAPIKey, is.Gate = want.RequireAPIKey, want.Gate
		return is, nil
	})
	wantProblem(t, "update", err, "")
	stored, err := s.App(ctx, "shop-prod", "hello")
	wantProblem(t, "read", err, "")
	if !cmp.Equal(want, got) || !cmp.Equal(want, stored) {
		t.Errorf("updated (-want +got):\n%sstored:\n%s", cmp.Diff(want, got), cmp.Diff(want, stored))
	}
	mine := errors.New("mine")
	if _, err := s.UpdateApp(ctx, a.Ref(), func(app.App) (app.App, error) { return app.App{}, mine }); !errors.Is(err, mine) {
		t.Errorf("got error %v, want the error of change", err)
	}
	for name, change := range map[string]func(*app.App){
		"name":        func(a *app.App) { a.Name = "other" },
		"environment": func(a *app.App) { a.Namespace = "shop-staging" },
	} {
		if _, err := s.UpdateApp(ctx, a.Ref(), func(is app.App) (app.App, error) { change(&is); return is, nil }); err == nil {
			t.Errorf("change of the %s: got no error", name)
		}
	}
	_, err = s.UpdateApp(ctx, app.Ref{Namespace: "shop-prod", Name: "none"}, func(is app.App) (app.App, error) { return is, nil })
	wantProblem(t, "a missing app", err, problem.NotFound)
}

func TestListApps(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var all []string
	for _, env := range []string{"prod", "staging"} {
		makeEnvironment(t, s, "shop", env)
		for i := range 3 {
			a := newApp("shop", env, fmt.Sprintf("a%d", i))
			all = append(all, a.Ref().String())
			wantProblem(t, "create", s.CreateApp(t.Context(), a, storetest.First(a)), "")
		}
	}
	first, next, err := s.Apps(t.Context(), "shop-prod", store.Page{Size: 2})
	if err != nil || len(first) != 2 || next == "" {
		t.Fatalf("first page: got %d apps, %q, %v, want 2 and a token", len(first), next, err)
	}
	second, next, err := s.Apps(t.Context(), "shop-prod", store.Page{Size: 2, Token: next})
	if err != nil || len(second) != 1 || second[0].Name != "a2" || next != "" {
		t.Errorf("second page: got %v, %q, %v, want a2", second, next, err)
	}
	var got []string
	for a, err := range s.AllApps(t.Context()) {
		wantProblem(t, "all", err, "")
		got = append(got, a.Ref().String())
	}
	check.Equal(t, "all apps", all, got)
	for range s.AllApps(t.Context()) {
		break
	}
}

// TestLateDeletion deletes an object that was replaced by one with the same name.
func TestLateDeletion(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	create := func(at time.Time) (app.Project, app.Environment, app.App) {
		t.Helper()
		p, e, a := app.Project{Name: "shop", CreatedAt: at}, environment("shop", "prod"), newApp("shop", "prod", "hello")
		e.CreatedAt, a.CreatedAt = at, at
		wantProblem(t, "create project", s.CreateProject(ctx, p), "")
		wantProblem(t, "create environment", s.CreateEnvironment(ctx, e), "")
		wantProblem(t, "create app", s.CreateApp(ctx, a, storetest.First(a)), "")
		return p, e, a
	}
	p, e, a := create(noon())
	wantProblem(t, "delete app", s.DeleteApp(ctx, a), "")
	wantProblem(t, "delete environment", s.DeleteEnvironment(ctx, e), "")
	wantProblem(t, "delete project", s.DeleteProject(ctx, p), "")
	wantProblem(t, "release namespace", s.ReleaseNamespace(ctx, "shop-prod"), "")
	wantProblem(t, "release host", s.ReleaseReservation(ctx, a.Host), "")
	laterProject, laterEnvironment, laterApp := create(noon().Add(time.Microsecond))
	wantProblem(t, "delete the earlier app", s.DeleteApp(ctx, a), problem.NotFound)
	wantProblem(t, "delete the later app", s.DeleteApp(ctx, laterApp), "")
	wantProblem(t, "delete the earlier environment", s.DeleteEnvironment(ctx, e), problem.NotFound)
	wantProblem(t, "delete the later environment", s.DeleteEnvironment(ctx, laterEnvironment), "")
	wantProblem(t, "delete the earlier project", s.DeleteProject(ctx, p), problem.NotFound)
	wantProblem(t, "delete the later project", s.DeleteProject(ctx, laterProject), "")
}
