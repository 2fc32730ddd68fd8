package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/store/storetest"
)

func TestSignedOut(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, replica := storetest.Open(t, project), storetest.Open(t, project)
	if err := s.CreateUser(t.Context(), someUser("ada")); err != nil { // version 3
		t.Fatal(err)
	}
	want := func(over bool, tokenID, username string, version int64) {
		t.Helper()
		got, err := replica.SignedOut(t.Context(), tokenID, username, version)
		if err != nil || got != over {
			t.Errorf("session %s of %s, version %d, is over: %v, %v; want %v", tokenID, username, version, got, err, over)
		}
	}
	want(false, "ONE", "ada", 3)
	want(true, "ONE", "ada", 2)
	want(true, "ONE", "nobody", 3)

	for range 2 { // twice is harmless
		if err := s.SignOut(t.Context(), "ONE", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	want(true, "ONE", "ada", 3)
	want(false, "TWO", "ada", 3)

	err := s.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) {
		u.Version = 4
		return u, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(true, "TWO", "ada", 3)
	want(false, "TWO", "ada", 4)
}

func TestSignedOutFailsClosed(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := s.SignedOut(ctx, "ONE", "ada", 1); err == nil {
		t.Fatal("without an answer from the store a session is taken for good")
	}
}
