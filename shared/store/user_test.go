package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func someUser(name string) user.User {
	return user.User{
		Name: name, Hash: "$argon2id$" + name, Version: 3, Admin: true, State: user.Active,
		CreatedAt:  time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC),
		LastSignIn: time.Date(2026, 3, 2, 12, 0, 0, 123456000, time.UTC),
	}
}

func TestUserRoundTrip(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	want := someUser("ada.l_1-x")
	check.OK(t, s.CreateUser(t.Context(), want))
	got, err := s.User(t.Context(), want.Name)
	check.OK(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	other := want
	other.Admin = false
	if err := s.CreateUser(t.Context(), other); !problem.Is(err, problem.AlreadyExists) {
		t.Errorf("second creation: got %v, want already_exists", err)
	}
	if got, _ = s.User(t.Context(), want.Name); !got.Admin {
		t.Error("the second creation changed the user")
	}
	if _, err := s.User(t.Context(), "nobody"); !problem.Is(err, problem.NotFound) {
		t.Errorf("missing user: got %v, want not_found", err)
	}
}

func TestUpdateUserIsATransaction(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	check.OK(t, s.CreateUser(t.Context(), someUser("ada")))
	const writers = 4
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			_, err := s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) {
				u.Version++
				return u, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.User(t.Context(), "ada")
	if err != nil || got.Version != 3+writers {
		t.Errorf("version: got %d, %v, want %d", got.Version, err, 3+writers)
	}

	_, err = s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) {
		u.Hash = "changed"
		return u, problem.FromCode(problem.Conflict)
	})
	if after, _ := s.User(t.Context(), "ada"); !problem.Is(err, problem.Conflict) || after.Hash == "changed" {
		t.Errorf("rejected change: got %v, stored %+v", err, after)
	}
	_, err = s.UpdateUser(t.Context(), "nobody", func(u user.User) (user.User, error) { return u, nil })
	if !problem.Is(err, problem.NotFound) {
		t.Errorf("missing user: got %v, want not_found", err)
	}
}

func TestUsersByPages(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	want := []string{"0", "a-b", "a.b", "ada", "zoe"}
	for _, name := range want {
		check.OK(t, s.CreateUser(t.Context(), someUser(name)))
	}
	var got []string
	page := store.Page{Size: 2}
	for {
		users, next, err := s.Users(t.Context(), page)
		check.OK(t, err)
		for _, u := range users {
			got = append(got, u.Name)
		}
		if next == "" {
			break
		}
		page.Token = next
	}
	check.Equal(t, "names", want, got)
}

func TestMembersAreUsers(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	makeProject(t, s, "shop", map[string]app.Role{"ada": app.Owner})
	for _, name := range []string{"ada", "bob"} {
		check.OK(t, s.CreateUser(t.Context(), someUser(name)))
	}
	deactivate(t, s, "bob")
	for _, tt := range []struct {
		name  string
		names []string
		want  user.ByName
	}{
		{"none", nil, user.ByName{}},
		{"all there", []string{"bob", "ada"}, user.ByName{"ada": user.Active, "bob": user.Deactivated}},
		{"some missing", []string{"zoe", "ada", "cyd"}, user.ByName{"ada": user.Active}},
		{"the same twice", []string{"ada", "ada"}, user.ByName{"ada": user.Active}},
		{"invalid usernames", []string{"", "..", "a/b/c", "Ada", "__ada__", "ada\x00"}, user.ByName{}},
	} {
		_, err := s.UpdateMembers(t.Context(), "shop", func(m map[string]app.Role, states store.ReadStates) (map[string]app.Role, error) {
			got, err := states(tt.names)
			check.Equal(t, tt.name, tt.want, got)
			return m, err
		})
		check.OK(t, err)
	}
}

func TestStanding(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, replica := storetest.Open(t, project), storetest.Open(t, project)
	for _, name := range []string{"ada", "bob"} {
		check.OK(t, s.CreateUser(t.Context(), someUser(name)))
	}
	want := func(over bool, tokenID, username string, version int64) {
		t.Helper()
		got, err := replica.Standing(t.Context(), tokenID, username, version)
		if want := (user.Standing{Over: over, Admin: !over}); err != nil || got != want {
			t.Errorf("session %s of %s, version %d: got %+v, %v, want %+v", tokenID, username, version, got, err, want)
		}
	}
	want(false, "ONE", "ada", 3)
	want(true, "ONE", "ada", 2)
	want(true, "ONE", "nobody", 3)

	for range 2 {
		check.OK(t, s.SignOut(t.Context(), "ONE", time.Now().Add(time.Hour)))
	}
	want(true, "ONE", "ada", 3)
	want(false, "TWO", "ada", 3)

	_, err := s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) {
		u.Version = 4
		return u, nil
	})
	check.OK(t, err)
	want(true, "TWO", "ada", 3)
	want(false, "TWO", "ada", 4)
	deactivate(t, s, "ada")
	u, err := s.User(t.Context(), "ada")
	check.OK(t, err)
	want(true, "TWO", "ada", 4)
	want(true, "TWO", "ada", u.Version)
}

func TestStandingFailsClosed(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := s.Standing(ctx, "ONE", "ada", 1); err == nil {
		t.Fatal("got a session without a response from the store")
	}
}

// Authentication reads two documents in one call, also for the caller's rights.
func TestCallsOfAStanding(t *testing.T) {
	t.Parallel()
	c := &calls{of: map[string]int{}}
	s, err := store.OpenCounted(t.Context(), storetest.Project(t), c.unary, c.stream)
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	check.OK(t, s.CreateUser(t.Context(), someUser("ada")))
	c.reset()
	got, err := s.Standing(t.Context(), "ONE", "ada", 3)
	check.OK(t, err)
	check.Equal(t, "standing", user.Standing{Admin: true}, got)
	check.Equal(t, "calls", map[string]int{"BatchGetDocuments": 1, "document": 1}, c.reset())
}

// A user of an earlier release has no state and no last sign-in.
func TestUserOfEarlierRelease(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storetest.Change(t, project, "users/ada", map[string]any{"username": "ada", "hash": "h", "version": 3, "admin": true, "created_at": noon()})
	got, err := s.User(t.Context(), "ada")
	check.OK(t, err)
	check.Equal(t, "user", user.User{Name: "ada", Hash: "h", Version: 3, Admin: true, State: user.Active, CreatedAt: noon()}, got)
	_, err = s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) { u.Admin = false; return u, nil })
	wantProblem(t, "demote the last admin", err, problem.LastAdmin)
}

func TestSignInIsStored(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	check.OK(t, s.CreateUser(t.Context(), someUser("ada")))
	check.OK(t, s.SignedIn(t.Context(), "ada", noon()))
	want := someUser("ada")
	want.LastSignIn = noon()
	got, err := s.User(t.Context(), "ada")
	check.OK(t, err)
	check.Equal(t, "user", want, got)
	wantProblem(t, "sign-in of a removed user", s.SignedIn(t.Context(), "bob", noon()), problem.NotFound)
	if _, err := s.User(t.Context(), "bob"); !problem.Is(err, problem.NotFound) {
		t.Errorf("after the sign-in of a removed user: got %v, want not_found", err)
	}
}

func deactivate(t *testing.T, s *store.Store, name string) {
	t.Helper()
	_, err := s.UpdateUser(t.Context(), name, func(u user.User) (user.User, error) { return u.WithState(user.Deactivated, time.Now()), nil })
	check.OK(t, err)
}

// admins returns the active admins.
func admins(t *testing.T, s *store.Store) []string {
	t.Helper()
	users, _, err := s.Users(t.Context(), store.Page{Size: 100})
	check.OK(t, err)
	var names []string
	for _, u := range users {
		if u.ActiveAdmin() {
			names = append(names, u.Name)
		}
	}
	return names
}

func TestLastAdmin(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, name := range []string{"ada", "bob"} {
		check.OK(t, s.CreateUser(t.Context(), someUser(name)))
	}
	plain := someUser("cyd")
	plain.Admin = false
	check.OK(t, s.CreateUser(t.Context(), plain))
	deactivate(t, s, "bob")
	changes := map[string]func() error{
		"demote": func() error {
			return errorOf(s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) { u.Admin = false; return u, nil }))
		},
		"deactivate": func() error {
			return errorOf(s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) {
				return u.WithState(user.Deactivated, time.Now()), nil
			}))
		},
		"remove": func() error { return s.RemoveUser(t.Context(), "ada") },
	}
	before, err := s.User(t.Context(), "ada")
	check.OK(t, err)
	for name, change := range changes {
		wantProblem(t, name, change(), problem.LastAdmin)
	}
	after, err := s.User(t.Context(), "ada")
	check.OK(t, err)
	check.Equal(t, "last admin", before, after)
	check.OK(t, s.RemoveUser(t.Context(), "bob")) // a deactivated admin
	check.OK(t, s.RemoveUser(t.Context(), "cyd"))
	check.Equal(t, "admins", []string{"ada"}, admins(t, s))
}

// Two replicas change the last two admins.
func TestConcurrentChangesLeaveAnAdmin(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	one, two := storetest.Open(t, project), storetest.Open(t, project)
	demote := func(s *store.Store, name string) error {
		return errorOf(s.UpdateUser(t.Context(), name, func(u user.User) (user.User, error) { u.Admin = false; return u, nil }))
	}
	remove := func(s *store.Store, name string) error { return s.RemoveUser(t.Context(), name) }
	off := func(s *store.Store, name string) error {
		return errorOf(s.UpdateUser(t.Context(), name, func(u user.User) (user.User, error) { return u.WithState(user.Deactivated, time.Now()), nil }))
	}
	for i, pair := range [][2]func(*store.Store, string) error{{demote, demote}, {remove, remove}, {off, demote}, {remove, off}} {
		names := []string{fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)}
		for _, name := range names {
			check.OK(t, one.CreateUser(t.Context(), someUser(name)))
		}
		for _, name := range admins(t, one) { // of the previous pair
			if !slices.Contains(names, name) {
				check.OK(t, one.RemoveUser(t.Context(), name))
			}
		}
		var wg sync.WaitGroup
		errs := make([]error, 2)
		wg.Go(func() { errs[0] = pair[0](one, names[0]) })
		wg.Go(func() { errs[1] = pair[1](two, names[1]) })
		wg.Wait()
		if left := admins(t, one); len(left) != 1 {
			t.Errorf("pair %d: got the admins %q after %v, want one", i, left, errs)
		}
	}
}

func TestRemoveUser(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	for _, name := range []string{"ada", "bob.b", "cyd"} {
		check.OK(t, s.CreateUser(ctx, someUser(name)))
	}
	makeProject(t, s, "bank", map[string]app.Role{"bob.b": app.Owner, "ada": app.Owner})
	makeProject(t, s, "lab", map[string]app.Role{"bob.b": app.Owner, "ada": app.Developer})
	makeProject(t, s, "club", map[string]app.Role{"bob.b": app.Owner, "cyd": app.Owner})
	makeProject(t, s, "shop", map[string]app.Role{"bob.b": app.Viewer, "ada": app.Owner})
	makeProject(t, s, "other", map[string]app.Role{"cyd": app.Owner})
	deactivate(t, s, "cyd")
	members := func() map[string]map[string]app.Role {
		projects, _, err := s.Projects(ctx, "", store.Page{Size: 100})
		check.OK(t, err)
		all := map[string]map[string]app.Role{}
		for _, p := range projects {
			all[p.Name] = p.Members
		}
		return all
	}
	before := members()
	err := s.RemoveUser(ctx, "bob.b")
	wantProblem(t, "an owner without another active one", err, problem.LastOwner)
	if text := err.Error(); !strings.Contains(text, "club, lab.") {
		t.Errorf("got %q, want the projects club and lab", text)
	}
	check.Equal(t, "members after the rejection", before, members())
	_, err = s.UpdateMembers(ctx, "lab", func(m map[string]app.Role, _ store.ReadStates) (map[string]app.Role, error) {
		m["ada"] = app.Owner
		return m, nil
	})
	check.OK(t, err)
	_, err = s.UpdateMembers(ctx, "club", func(m map[string]app.Role, _ store.ReadStates) (map[string]app.Role, error) {
		m["ada"] = app.Owner
		return m, nil
	})
	check.OK(t, err)
	check.OK(t, s.RemoveUser(ctx, "bob.b"))
	check.Equal(t, "members after the removal", map[string]map[string]app.Role{
		"bank": {"ada": app.Owner}, "lab": {"ada": app.Owner}, "club": {"ada": app.Owner, "cyd": app.Owner}, "shop": {"ada": app.Owner}, "other": {"cyd": app.Owner},
	}, members())
	projects, _, err := s.Projects(ctx, "bob.b", store.Page{Size: 9})
	if err != nil || len(projects) != 0 {
		t.Errorf("projects of a removed user: got %v, %v", projects, err)
	}
	wantProblem(t, "remove again", s.RemoveUser(ctx, "bob.b"), problem.NotFound)
	wantProblem(t, "an invalid name", s.RemoveUser(ctx, "../bob"), problem.NotFound)
	standing, err := s.Standing(ctx, "ONE", "bob.b", 3)
	check.OK(t, err)
	check.Equal(t, "standing of a removed user", user.Standing{Over: true}, standing)
}

// A removal from many projects takes several transactions.
func TestRemoveUserFromManyProjects(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, name := range []string{"ada", "bob"} {
		check.OK(t, s.CreateUser(t.Context(), someUser(name)))
	}
	const many = 101
	for i := range many {
		makeProject(t, s, fmt.Sprintf("p%03d", i), map[string]app.Role{"bob": app.Owner, "ada": app.Owner})
	}
	makeProject(t, s, "z-last", map[string]app.Role{"bob": app.Owner})
	wantProblem(t, "an owner of the last project", s.RemoveUser(t.Context(), "bob"), problem.LastOwner)
	if projects, _, err := s.Projects(t.Context(), "bob", store.Page{Size: 500}); err != nil || len(projects) != many+1 {
		t.Errorf("projects after the rejection: got %d, %v, want %d", len(projects), err, many+1)
	}
	u, err := s.User(t.Context(), "bob")
	check.OK(t, err)
	check.Equal(t, "user after the rejection", someUser("bob"), u)
	check.OK(t, storetest.DeleteProject(t.Context(), s, "z-last"))
	check.OK(t, s.RemoveUser(t.Context(), "bob"))
	if projects, _, err := s.Projects(t.Context(), "bob", store.Page{Size: 500}); err != nil || len(projects) != 0 {
		t.Errorf("projects after the removal: got %d, %v, want none", len(projects), err)
	}
	if _, err := s.User(t.Context(), "bob"); !problem.Is(err, problem.NotFound) {
		t.Errorf("user after the removal: got %v, want not_found", err)
	}
}

// TestRemovalIsNotHalfDone verifies that a removal continues if, after its first transaction, the
// other owner of the remaining projects is deactivated.
func TestRemovalIsNotHalfDone(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	plain := storetest.Open(t, project)
	for _, name := range []string{"ada", "bob", "root"} {
		check.OK(t, plain.CreateUser(t.Context(), someUser(name)))
	}
	const many = 101
	for i := range many {
		makeProject(t, plain, fmt.Sprintf("p%03d", i), map[string]app.Role{"bob": app.Owner, "ada": app.Owner})
	}
	var once sync.Once
	s, err := store.OpenAnswered(t.Context(), project, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := call(ctx, method, req, reply, cc, opts...)
		if err == nil && strings.HasSuffix(method, "/Commit") {
			once.Do(func() { deactivate(t, plain, "ada") })
		}
		return err
	})
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	check.OK(t, s.RemoveUser(t.Context(), "bob"))
	if projects, _, err := s.Projects(t.Context(), "bob", store.Page{Size: 500}); err != nil || len(projects) != 0 {
		t.Errorf("projects after the removal: got %d, %v, want none", len(projects), err)
	}
}

func TestRemovedUserCreatesNoProject(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	as := func(name string) context.Context {
		ctx := reqctx.Begin(t.Context(), reqctx.Request{ID: "r1"})
		reqctx.SetActor(ctx, reqctx.Actor{Kind: reqctx.User, Name: name})
		return ctx
	}
	for _, name := range []string{"ada", "bob"} {
		check.OK(t, s.CreateUser(t.Context(), someUser(name)))
	}
	deactivate(t, s, "bob")
	for name, want := range map[string]problem.Code{"ada": "", "bob": problem.Unauthenticated, "cyd": problem.Unauthenticated} {
		wantProblem(t, name, s.CreateProject(as(name), app.Project{Name: "of-" + name, Members: map[string]app.Role{name: app.Owner}}), want)
	}
}

// A user is added to projects while another replica removes the user.
func TestRemovedUserBecomesNoMember(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	one, two := storetest.Open(t, project), storetest.Open(t, project)
	check.OK(t, one.CreateUser(t.Context(), someUser("ada")))
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		makeProject(t, one, name, map[string]app.Role{"ada": app.Owner})
		check.OK(t, one.CreateUser(t.Context(), someUser("bob")))
		var added, removed error
		var wg sync.WaitGroup
		wg.Go(func() {
			_, added = two.UpdateMembers(t.Context(), name, func(m map[string]app.Role, states store.ReadStates) (map[string]app.Role, error) {
				known, err := states([]string{"bob"})
				if err == nil && known["bob"] != user.Active {
					err = problem.FromCode(problem.UnknownUser)
				}
				m["bob"] = app.Viewer
				return m, err
			})
		})
		wg.Go(func() { removed = one.RemoveUser(t.Context(), "bob") })
		wg.Wait()
		if removed != nil {
			check.OK(t, one.RemoveUser(t.Context(), "bob"))
		}
		if projects, _, err := one.Projects(t.Context(), "bob", store.Page{Size: 9}); err != nil || len(projects) != 0 {
			t.Errorf("projects of the removed user: got %v, %v, after the errors %v, %v", projects, err, added, removed)
		}
	}
}

func TestFirstUser(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	had := func(want bool) {
		t.Helper()
		if got, err := s.HadUsers(t.Context()); err != nil || got != want {
			t.Errorf("had users: got %t, %v, want %t", got, err, want)
		}
	}
	had(false)
	check.OK(t, s.CreateFirstUser(t.Context(), someUser("ada")))
	wantProblem(t, "another first user", s.CreateFirstUser(t.Context(), someUser("bob")), problem.AlreadyExists)
	storetest.Change(t, project, "users/ada", nil)
	had(true)

	earlier := storetest.Project(t)
	s = storetest.Open(t, earlier)
	check.OK(t, s.CreateUser(t.Context(), someUser("ada")))
	had(true) // writes the mark
	storetest.Change(t, earlier, "users/ada", nil)
	had(true)
}

func TestTokensCreatedBy(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, name := range []string{"bank", "shop"} {
		makeProject(t, s, name, map[string]app.Role{"ada": app.Owner})
	}
	var want []servicetoken.ID
	for i, by := range []string{"ada", "bob", "ada"} {
		token := newToken(t, []string{"shop", "shop", "bank"}[i], fmt.Sprintf("t%d", i))
		token.CreatedBy = by
		check.OK(t, s.CreateToken(t.Context(), token))
		if by == "ada" {
			want = append(want, token.ID)
		}
	}
	tokens, err := s.TokensCreatedBy(t.Context(), "ada")
	check.OK(t, err)
	var got []servicetoken.ID
	for _, token := range tokens {
		got = append(got, token.ID)
	}
	slices.Sort(want)
	check.Equal(t, "tokens", want, got)
}
