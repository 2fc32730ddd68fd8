package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestUpdateKey(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storePlan(t, s, "shop-prod", "starter")
	storePlan(t, s, "shop-prod", "bigger")
	storePlan(t, s, "shop-staging", "elsewhere")
	storeApps(t, s, "hello", "other")
	refused := errors.New("refused")
	tests := []struct {
		name   string
		change func(*apikey.Key) error
		want   problem.Code // "" if it is stored
	}{
		{"another plan", func(k *apikey.Key) error { k.Plan = "plan-bigger"; return nil }, ""},
		{"a scope", func(k *apikey.Key) error { k.Apps = []string{"hello", "other"}; return nil }, ""},
		{"a rotation", func(k *apikey.Key) (err error) {
			*k, err = k.Rotate(apikey.HashOf([]byte("new")), time.Hour, noon().Add(time.Minute))
			return err
		}, ""},
		{"a revocation", func(k *apikey.Key) error { *k = k.Revoke(noon().Add(time.Minute), "ada"); return nil }, ""},
		{"an expiry", func(k *apikey.Key) error { k.ExpiresAt = noon().Add(time.Hour); return nil }, ""},
		{"a plan of another environment", func(k *apikey.Key) error { k.Plan = "plan-elsewhere"; return nil }, problem.UnknownPlan},
		{"a missing app", func(k *apikey.Key) error { k.Apps = []string{"none"}; return nil }, problem.InvalidScope},
		{"an error of change", func(k *apikey.Key) error {
			k.Name = "never"
			return problem.FromCode(problem.KeyRevoked).WithCause(refused)
		}, problem.KeyRevoked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := storeKey(t, s, nil)
			before, err := s.Key(t.Context(), k.ID())
			check.OK(t, err)
			answer, _, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) {
				err := tt.change(&k)
				return k, err
			})
			after, getErr := s.Key(t.Context(), k.ID())
			check.OK(t, getErr)
			if tt.want != "" {
				check.Problem(t, err, tt.want)
				answer = before
			} else if err != nil || cmp.Equal(before, after) {
				t.Errorf("got no change: %v", err)
			}
			if diff := cmp.Diff(answer, after); diff != "" {
				t.Errorf("key (-want +stored):\n%s", diff)
			}
		})
	}
}

// A key can be disabled and renamed although an app of its scope was deleted.
func TestUpdateKeyWithDeletedApp(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storePlan(t, s, "shop-prod", "starter")
	storeApps(t, s, "hello")
	k := storeKey(t, s, func(k *apikey.Key) { k.Apps = []string{"hello"} })
	check.OK(t, storetest.DeleteApp(t.Context(), s, app.Ref{Namespace: "shop-prod", Name: "hello"}))
	disable := func(k apikey.Key) (apikey.Key, error) { return k.WithStatus(apikey.Disabled) }
	if _, _, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, disable); err != nil {
		t.Fatalf("disable: %v", err)
	}
	ref := rawClient(t, project).Collection("keys").Doc(string(k.ID()))
	before, err := ref.Get(t.Context())
	check.OK(t, err)
	if _, _, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, disable); err != nil {
		t.Fatalf("disable again: %v", err)
	}
	after, err := ref.Get(t.Context())
	check.OK(t, err)
	if !after.UpdateTime.Equal(before.UpdateTime) {
		t.Errorf("got a write at %s after %s, want none", after.UpdateTime, before.UpdateTime)
	}
}

func TestUpdateKeyRace(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storePlan(t, s, "shop-prod", "starter")
	k := storeKey(t, s, nil)
	errs := make([]error, 6)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, _, errs[i] = s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) {
				k.Name += "x"
				return k, nil
			})
		})
	}
	all.Wait()
	want := 0
	for _, err := range errs {
		if err == nil {
			want++
		} else {
			check.Problem(t, err, problem.Conflict)
		}
	}
	got, err := s.Key(t.Context(), k.ID())
	if err != nil || len(got.Name) != want || want == 0 {
		t.Errorf("got %d successful changes and %d stored ones, %v", want, len(got.Name), err)
	}
}
