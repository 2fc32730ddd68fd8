package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func someUser(name string) user.User {
	return user.User{
		Name: name, Hash: "$argon2id$" + name, Version: 3, Admin: true,
		CreatedAt: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC),
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
			err := s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) {
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

	err = s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) {
		u.Hash = "changed"
		return u, problem.FromCode(problem.Conflict)
	})
	if after, _ := s.User(t.Context(), "ada"); !problem.Is(err, problem.Conflict) || after.Hash == "changed" {
		t.Errorf("rejected change: got %v, stored %+v", err, after)
	}
	err = s.UpdateUser(t.Context(), "nobody", func(u user.User) (user.User, error) { return u, nil })
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

func TestUsersExist(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, name := range []string{"ada", "bob"} {
		check.OK(t, s.CreateUser(t.Context(), someUser(name)))
	}
	tests := []struct {
		name        string
		names, want []string
	}{
		{"none", nil, nil},
		{"all there", []string{"bob", "ada"}, nil},
		{"some missing, in their order", []string{"zoe", "ada", "cyd"}, []string{"zoe", "cyd"}},
		{"the same twice", []string{"ada", "ada", "zoe", "zoe"}, []string{"zoe", "zoe"}},
		{"invalid usernames", []string{"", "..", "a/b/c", "Ada", "__ada__", "ada\x00"}, []string{"", "..", "a/b/c", "Ada", "__ada__", "ada\x00"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.UsersExist(t.Context(), tt.names)
			check.OK(t, err)
			check.Equal(t, "missing", tt.want, got)
		})
	}
}

func TestSignedOut(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, replica := storetest.Open(t, project), storetest.Open(t, project)
	if err := s.CreateUser(t.Context(), someUser("ada")); err != nil {
		t.Fatal(err)
	}
	want := func(over bool, tokenID, username string, version int64) {
		t.Helper()
		got, err := replica.SignedOut(t.Context(), tokenID, username, version)
		if err != nil || got != over {
			t.Errorf("session %s of %s, version %d: got ended %v, %v, want %v", tokenID, username, version, got, err, over)
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

	err := s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) {
		u.Version = 4
		return u, nil
	})
	check.OK(t, err)
	want(true, "TWO", "ada", 3)
	want(false, "TWO", "ada", 4)
}

func TestSignedOutFailsClosed(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := s.SignedOut(ctx, "ONE", "ada", 1); err == nil {
		t.Fatal("got a session without a response from the store")
	}
}
