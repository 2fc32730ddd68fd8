package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func environment(project, name string) app.Environment {
	return app.Environment{Project: project, Name: name, Namespace: project + "-" + name, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// makeEnvironment creates an environment, and its project unless it exists.
func makeEnvironment(t *testing.T, s *store.Store, project, name string) {
	t.Helper()
	err := s.CreateProject(t.Context(), app.Project{Name: project, Members: map[string]app.Role{"ada": app.Owner}})
	if err != nil && !problem.Is(err, problem.AlreadyExists) {
		t.Fatal(err)
	}
	wantProblem(t, "create environment", s.CreateEnvironment(t.Context(), environment(project, name)), "")
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	wantProblem(t, "without its project", s.CreateEnvironment(ctx, environment("a", "b-c")), problem.NotFound)
	makeEnvironment(t, s, "a", "b-c")
	makeProject(t, s, "a-b", map[string]app.Role{"bob": app.Owner})
	wantProblem(t, "again", s.CreateEnvironment(ctx, environment("a", "b-c")), problem.AlreadyExists)
	wantProblem(t, "another one's namespace", s.CreateEnvironment(ctx, environment("a-b", "c")), problem.NamespaceTaken)

	got, err := s.Environment(ctx, "a", "b-c")
	wantProblem(t, "read", err, "")
	check.Equal(t, "environment", environment("a", "b-c"), got)
	for _, other := range [][2]string{{"a-b", "c"}, {"a", "c"}, {"a", ""}, {"", ""}, {"a", "../x"}, {"a", "b/c"}, {"a", "B-C"}} {
		_, err := s.Environment(ctx, other[0], other[1])
		wantProblem(t, fmt.Sprintf("read %q", other), err, problem.NotFound)
		wantProblem(t, fmt.Sprintf("delete %q", other), s.DeleteEnvironment(ctx, environment(other[0], other[1])), problem.NotFound)
	}
	list, next, err := s.Environments(ctx, "a", store.Page{Size: 5})
	if err != nil || next != "" || len(list) != 1 || list[0].Name != "b-c" {
		t.Errorf("environments: got %v, %q, %v, want b-c", list, next, err)
	}
	if list, _, err := s.Environments(ctx, "a-b", store.Page{Size: 5}); err != nil || len(list) != 0 {
		t.Errorf("environments: got %v, %v for the other project, want none", list, err)
	}
}

func TestNonEmptyProjectIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	makeEnvironment(t, s, "shop", "prod")
	wantProblem(t, "a project with an environment", storetest.DeleteProject(ctx, s, "shop"), problem.NotEmpty)
	a := newApp("shop", "prod", "hello")
	wantProblem(t, "create app", s.CreateApp(ctx, a, storetest.First(a)), "")
	wantProblem(t, "an environment with an app", storetest.DeleteEnvironment(ctx, s, "shop", "prod"), problem.NotEmpty)
	wantProblem(t, "delete app", storetest.DeleteApp(ctx, s, a.Ref()), "")
	storePlan(t, s, "shop-prod", "0")
	wantProblem(t, "an environment with a plan", storetest.DeleteEnvironment(ctx, s, "shop", "prod"), problem.NotEmpty)
	wantProblem(t, "delete plan", s.DeletePlan(ctx, "shop-prod", "plan-0", always), "")
	wantProblem(t, "an empty environment", storetest.DeleteEnvironment(ctx, s, "shop", "prod"), "")
	wantProblem(t, "an empty project", storetest.DeleteProject(ctx, s, "shop"), "")
}

func TestRecreatedEnvironmentIsEmpty(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	storeApps(t, s)
	storePlan(t, s, "shop-prod", "starter")
	revoke := func(k apikey.Key) (apikey.Key, error) { return k.Revoke(noon(), "ada"), nil }
	var keys []apikey.Key
	for range 3 {
		keys = append(keys, storeKey(t, s, nil))
	}
	for _, k := range keys[1:] {
		if _, _, err := s.ReissueKey(ctx, k.ID(), apikey.Request{}, revoke); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want int) {
		t.Helper()
		got, _, err := s.Keys(ctx, store.KeyFilter{Project: "shop"}, store.Page{Size: 5})
		if err != nil || len(got) != want {
			t.Errorf("keys: got %d, %v, want %d", len(got), err, want)
		}
	}
	wantProblem(t, "with a usable key", storetest.DeleteEnvironment(ctx, s, "shop", "prod"), problem.NotEmpty)
	left(3)
	if _, _, err := s.ReissueKey(ctx, keys[0].ID(), apikey.Request{}, revoke); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, "delete plan", s.DeletePlan(ctx, "shop-prod", "plan-starter", always), "")
	wantProblem(t, "delete", storetest.DeleteEnvironment(ctx, s, "shop", "prod"), "")
	wantProblem(t, "make again", s.CreateEnvironment(ctx, environment("shop", "prod")), "")
	left(0)
	_, err := s.Key(ctx, keys[1].ID())
	wantProblem(t, "read a key of the previous environment", err, problem.NotFound)
}

func TestAppOrEnvironment(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 4 {
		env := fmt.Sprintf("e%d", i)
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			makeEnvironment(t, s, "shop-"+env, "prod")
			a := newApp("shop-"+env, "prod", "hello")
			var created, deleted error
			var group sync.WaitGroup
			group.Go(func() { created = s.CreateApp(t.Context(), a, storetest.First(a)) })
			group.Go(func() { deleted = storetest.DeleteEnvironment(t.Context(), s, "shop-"+env, "prod") })
			group.Wait()
			if created == nil && deleted == nil {
				t.Fatal("got an app without its environment")
			}
		})
	}
}
