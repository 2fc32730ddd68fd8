package store_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// wantProblem compares an error with a problem code; "" stands for nil.
func wantProblem(t *testing.T, what string, err error, code problem.Code) {
	t.Helper()
	if code == "" && err != nil || code != "" && !problem.Is(err, code) {
		t.Fatalf("%s: got %v, want %q", what, err, code)
	}
}

func makeProject(t *testing.T, s *store.Store, name string, members map[string]app.Role) app.Project {
	t.Helper()
	p := app.Project{Name: name, Members: members, CreatedAt: time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC), LeakPolicy: apikey.LeakDisable}
	wantProblem(t, "create project", s.CreateProject(t.Context(), p), "")
	return p
}

func TestProject(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	_, err := s.Project(ctx, "shop")
	wantProblem(t, "a missing project", err, problem.NotFound)
	p := makeProject(t, s, "shop", map[string]app.Role{"ada.l": app.Owner, "bob": app.Viewer})
	wantProblem(t, "create it again", s.CreateProject(ctx, p), problem.AlreadyExists)
	got, err := s.Project(ctx, "shop")
	wantProblem(t, "read", err, "")
	check.Equal(t, "project", p, got)
	_, err = s.UpdateMembers(ctx, "none", func(m map[string]app.Role, _ store.ReadStates) (map[string]app.Role, error) { return m, nil })
	wantProblem(t, "members of a missing project", err, problem.NotFound)
	_, err = s.UpdateMembers(ctx, "shop", func(map[string]app.Role, store.ReadStates) (map[string]app.Role, error) {
		return nil, problem.FromCode(problem.LastOwner)
	})
	wantProblem(t, "a rejected change", err, problem.LastOwner)
	if got, _ := s.Project(ctx, "shop"); !cmp.Equal(p, got) {
		t.Errorf("project after a rejected change: got %+v, want no change", got)
	}
	wantProblem(t, "delete", storetest.DeleteProject(ctx, s, "shop"), "")
	wantProblem(t, "delete it again", storetest.DeleteProject(ctx, s, "shop"), problem.NotFound)
}

func TestProjectsOfAMember(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 5 {
		members := map[string]app.Role{"ada": app.Owner}
		if i%2 == 0 {
			members["bob"] = app.Viewer
		}
		makeProject(t, s, fmt.Sprintf("p%d", i), members)
	}
	for member, want := range map[string][]string{
		"": {"p0", "p1", "p2", "p3", "p4"}, "ada": {"p0", "p1", "p2", "p3", "p4"}, "bob": {"p0", "p2", "p4"}, "eve": nil,
	} {
		var got []string
		for page := (store.Page{Size: 2}); ; {
			projects, next, err := s.Projects(t.Context(), member, page)
			wantProblem(t, "list", err, "")
			for _, p := range projects {
				got = append(got, p.Name)
			}
			if page.Token = next; next == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("projects of %q (-want +got):\n%s", member, diff)
		}
	}
	_, err := s.UpdateMembers(t.Context(), "p0", func(m map[string]app.Role, _ store.ReadStates) (map[string]app.Role, error) {
		delete(m, "bob")
		return m, nil
	})
	wantProblem(t, "take out", err, "")
	if got, _, err := s.Projects(t.Context(), "bob", store.Page{Size: 9}); err != nil || len(got) != 2 {
		t.Errorf("got %d projects, %v, want 2", len(got), err)
	}
}

func TestConcurrentMembers(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	makeProject(t, s, "shop", map[string]app.Role{"ada": app.Owner})
	want := map[string]app.Role{"ada": app.Owner}
	var group sync.WaitGroup
	for i := range 10 {
		name := fmt.Sprintf("u%d", i)
		want[name] = app.Viewer
		group.Go(func() {
			for {
				_, err := s.UpdateMembers(t.Context(), "shop", func(m map[string]app.Role, _ store.ReadStates) (map[string]app.Role, error) {
					m[name] = app.Viewer
					return m, nil
				})
				if !problem.Is(err, problem.Conflict) {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	group.Wait()
	got, err := s.Project(t.Context(), "shop")
	wantProblem(t, "read", err, "")
	if !maps.Equal(want, got.Members) {
		t.Errorf("members: got %v, want %v", got.Members, want)
	}
}
