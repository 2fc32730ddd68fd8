package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestDeletedAppLeavesScopes(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	storePlan(t, s, "shop-prod", "starter")
	storeApps(t, s, "hello", "other")
	scoped := func(apps ...string) apikey.Key {
		return storeKey(t, s, func(k *apikey.Key) { k.Apps = apps })
	}
	only, both, every, disabled, revoked := scoped("hello"), scoped("hello", "other"), scoped(), scoped("hello"), scoped("hello")
	reissue(t, s, disabled.ID(), func(k apikey.Key) (apikey.Key, error) { return k.WithStatus(apikey.Disabled) })
	reissue(t, s, revoked.ID(), func(k apikey.Key) (apikey.Key, error) { return k.Revoke(noon(), "ada"), nil })
	later := firestore.Update{Path: "later", Value: 1}
	if _, err := raw.Collection("keys").Doc(string(only.ID())).Update(t.Context(), []firestore.Update{later}); err != nil {
		t.Fatal(err)
	}

	a, err := s.App(t.Context(), "shop-prod", "hello")
	check.OK(t, err)
	another := a
	another.CreatedAt = a.CreatedAt.Add(time.Hour)
	_, err = s.LeaveScopes(t.Context(), another)
	check.Problem(t, err, problem.NotFound)
	narrowed, err := s.LeaveScopes(t.Context(), a)
	if err != nil || narrowed.Count != 3 || len(narrowed.Keys) != 3 {
		t.Errorf("got %d keys, %v, want 3", narrowed.Count, err)
	}
	check.OK(t, s.DeleteApp(t.Context(), a))
	_, err = s.LeaveScopes(t.Context(), a)
	check.Problem(t, err, problem.NotFound)
	for id, want := range map[apikey.ID][]string{
		only.ID(): {"-"}, both.ID(): {"other"}, every.ID(): nil, disabled.ID(): {"-"}, revoked.ID(): {"hello"},
	} {
		k, err := s.Key(t.Context(), id)
		if diff := cmp.Diff(want, k.Apps); diff != "" || err != nil {
			t.Errorf("scope of %s (-want +got), %v:\n%s", id, err, diff)
		}
	}
	if snap, err := raw.Collection("keys").Doc(string(only.ID())).Get(t.Context()); err != nil || snap.Data()["later"] != int64(1) {
		t.Errorf("got %v, %v, want the field of a later version", snap.Data(), err)
	}
	storeApps(t, s, "hello")
}

func TestManyKeysLeaveScopes(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]func(*store.Store, context.Context, app.App) error{
		"first": func(s *store.Store, ctx context.Context, a app.App) error {
			narrowed, err := s.LeaveScopes(ctx, a)
			if narrowed.Count != 205 || len(narrowed.Keys) != 100 {
				return fmt.Errorf("got %d changed and %d returned keys, want 205 and 100", narrowed.Count, len(narrowed.Keys))
			}
			return err
		},
		"with the app": (*store.Store).DeleteApp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := storetest.Project(t)
			s, raw := storetest.Open(t, project), rawClient(t, project)
			storePlan(t, s, "shop-prod", "starter")
			storeApps(t, s, "hello")
			k := storeKey(t, s, func(k *apikey.Key) { k.Apps = []string{"hello"} })
			storetest.CopyKey(t, project, k.ID(), 204)
			a, err := s.App(t.Context(), "shop-prod", "hello")
			check.OK(t, err)
			check.OK(t, deleted(s, t.Context(), a))
			left, err := raw.Collection("keys").Where("apps", "array-contains", "hello").Documents(t.Context()).GetAll()
			if err != nil || len(left) > 0 {
				t.Errorf("got %d keys that name the app, %v, want none", len(left), err)
			}
		})
	}
}

// An earlier version deleted an app without removing it from scopes.
func TestNewAppOfANameInScope(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	storePlan(t, s, "shop-prod", "starter")
	k := storeKey(t, s, nil)
	gone := []firestore.Update{{Path: "apps", Value: []string{"hello"}}}
	if _, err := raw.Collection("keys").Doc(string(k.ID())).Update(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	a := app.App{Name: "hello", Project: "shop", Environment: "prod", Namespace: "shop-prod", Host: "hello.example.com", Port: 80}
	check.Problem(t, s.CreateApp(t.Context(), a, store.InitialState{}), problem.NameInScope)
	reissue(t, s, k.ID(), func(k apikey.Key) (apikey.Key, error) { return k.Revoke(noon(), "ada"), nil })
	wantProblem(t, "create the app after the revocation", s.CreateApp(t.Context(), a, store.InitialState{}), "")
}

func reissue(t *testing.T, s *store.Store, id apikey.ID, change func(apikey.Key) (apikey.Key, error)) {
	t.Helper()
	if _, _, err := s.ReissueKey(t.Context(), id, apikey.Request{}, change); err != nil {
		t.Fatal(err)
	}
}
