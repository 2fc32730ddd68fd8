package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestKey(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storePlan(t, s, "shop-prod", "starter")
	storeApps(t, s, "hello", "other")
	tests := []struct {
		name string
		with func(*apikey.Key)
	}{
		{"nothing optional", func(*apikey.Key) {}},
		{"everything", func(k *apikey.Key) {
			k.Name, k.Apps, k.Status = "Café", []string{"hello", "other"}, apikey.Disabled
			k.ExpiresAt = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
			k.Previous, k.PreviousUntil = apikey.HashOf([]byte("before")), noon().Add(time.Hour)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := storeKey(t, s, tt.with)
			got, err := s.Key(t.Context(), want.ID())
			check.OK(t, err)
			want.Apps = slices.Concat([]string{}, want.Apps)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("key (-stored +read):\n%s", diff)
			}
		})
	}
}

// TestKeyDocument verifies that absent times are null, and that no part of the full key except its
// hash is stored.
func TestKeyDocument(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storePlan(t, s, "shop-prod", "starter")
	k := storeKey(t, s, nil)
	snap, err := rawClient(t, project).Collection("keys").Doc(string(k.ID())).Get(t.Context())
	check.OK(t, err)
	want := map[string]any{
		"prefix": string(k.Prefix), "project": "shop", "environment": "prod", "namespace": "shop-prod", "revoked_by": "", "plan": "plan-starter",
		"name": "", "apps": []any{}, "status": "active", "secret": k.Secret[:], "previous": []byte{}, "previous_until": nil,
		"expires_at": nil, "created_at": noon(), "created_by": "ada", "updated_at": noon(),
	}
	check.Equal(t, "document", want, snap.Data())
}

func TestCreateKeyRefused(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storePlan(t, s, "shop-prod", "starter")
	storePlan(t, s, "shop-staging", "elsewhere")
	storeApps(t, s, "hello")
	taken := storeKey(t, s, nil)
	tests := []struct {
		name string
		with func(*apikey.Key)
		want problem.Code
	}{
		{"a taken prefix", func(k *apikey.Key) { k.Prefix = taken.Prefix }, problem.AlreadyExists},
		{"a taken prefix in another environment", func(k *apikey.Key) {
			k.Prefix, k.Environment, k.Namespace, k.Plan = taken.Prefix, "staging", "shop-staging", "plan-elsewhere"
		}, problem.AlreadyExists},
		{"no such plan", func(k *apikey.Key) { k.Plan = "plan-none" }, problem.UnknownPlan},
		{"another environment's plan", func(k *apikey.Key) { k.Plan = "plan-elsewhere" }, problem.UnknownPlan},
		{"a plan that is a path", func(k *apikey.Key) { k.Plan = "plan-starter/x/y" }, problem.UnknownPlan},
		{"no such app", func(k *apikey.Key) { k.Apps = []string{"hello", "none"} }, problem.InvalidScope},
		{"an app that is a path", func(k *apikey.Key) { k.Apps = []string{"hello/deployments/1"} }, problem.InvalidScope},
		{"another environment's app", func(k *apikey.Key) {
			k.Environment, k.Namespace, k.Plan, k.Apps = "staging", "shop-staging", "plan-elsewhere", []string{"hello"}
		}, problem.InvalidScope},
		{"no prefix", func(k *apikey.Key) { k.Prefix = "canary" }, problem.NotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newKey(t)
			tt.with(&k)
			_, err := s.IssueKey(t.Context(), k, apikey.Request{}, 0)
			check.Problem(t, err, tt.want)
			if k.Prefix == taken.Prefix {
				return
			}
			_, err = s.Key(t.Context(), k.ID())
			check.Problem(t, err, problem.NotFound)
		})
	}
}

func TestCreateKeyRace(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storePlan(t, s, "shop-prod", "starter")
	k := newKey(t)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			mine := k
			mine.Name = fmt.Sprint(i)
			_, errs[i] = s.IssueKey(t.Context(), mine, apikey.Request{}, 0)
		})
	}
	all.Wait()
	winner := slices.Index(errs, nil)
	if winner < 0 {
		t.Fatalf("got no created key: %v", errs)
	}
	for i, err := range errs {
		if i != winner {
			check.Problem(t, err, problem.AlreadyExists)
		}
	}
	if got, err := s.Key(t.Context(), k.ID()); err != nil || got.Name != fmt.Sprint(winner) {
		t.Errorf("stored key: got name %q, %v, want %d", got.Name, err, winner)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	for _, ns := range []string{"shop-prod", "shop-staging", "bank-prod"} {
		storePlan(t, s, ns, "starter")
	}
	storePlan(t, s, "shop-prod", "gold")
	in := func(project, environment string) func(*apikey.Key) {
		return func(k *apikey.Key) {
			k.Project, k.Environment, k.Namespace = project, environment, project+"-"+environment
		}
	}
	prod := []apikey.ID{storeKey(t, s, in("shop", "prod")).ID(), storeKey(t, s, in("shop", "prod")).ID()}
	staging := []apikey.ID{storeKey(t, s, in("shop", "staging")).ID()}
	bank := []apikey.ID{storeKey(t, s, in("bank", "prod")).ID()}
	check.OK(t, s.WriteCanary(t.Context(), store.CanaryKeys, store.Canary{Replica: "checker-0", Run: "r", Seq: 1}))
	gold := []apikey.ID{storeKey(t, s, func(k *apikey.Key) { in("shop", "prod")(k); k.Plan = "plan-gold" }).ID()}
	all := slices.Concat(prod, gold, staging)
	tests := []struct {
		name   string
		filter store.KeyFilter
		want   []apikey.ID
	}{
		{"a project", store.KeyFilter{Project: "shop"}, all},
		{"one of its environments", store.KeyFilter{Project: "shop", Environment: "prod"}, slices.Concat(prod, gold)},
		{"another one", store.KeyFilter{Project: "shop", Environment: "staging"}, staging},
		{"another project", store.KeyFilter{Project: "bank"}, bank},
		{"an environment without keys", store.KeyFilter{Project: "shop", Environment: "test"}, nil},
		{"a plan of all environments", store.KeyFilter{Project: "shop", Plan: "plan-starter"}, slices.Concat(prod, staging)},
		{"a plan of one environment", store.KeyFilter{Project: "shop", Environment: "prod", Plan: "plan-gold"}, gold},
		{"a plan that no key has", store.KeyFilter{Project: "shop", Environment: "prod", Plan: "plan-none"}, nil},
		{"no project", store.KeyFilter{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			slices.Sort(tt.want)
			var got []apikey.ID
			for page := (store.Page{Size: 2}); ; {
				keys, next, err := s.Keys(t.Context(), tt.filter, page)
				check.OK(t, err)
				for _, k := range keys {
					got = append(got, k.ID())
				}
				if page.Token = next; next == "" {
					break
				}
			}
			check.Equal(t, "listed", tt.want, got)
			if len(got) > 1 {
				var rest []apikey.ID
				for k, err := range s.EachListed(t.Context(), tt.filter, got[0]) {
					check.OK(t, err)
					rest = append(rest, k.ID())
				}
				check.Equal(t, "listed after the first key", got[1:], rest)
			}
		})
	}
}

func TestInvalidKeyIDs(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	check.OK(t, s.WriteCanary(t.Context(), store.CanaryKeys, store.Canary{Replica: "checker-0", Run: "r", Seq: 1}))
	for _, id := range []apikey.ID{"", "canary.checker-0", "key-", "key-a/b/cccc", "..", "key-zzzzzzzz"} {
		_, err := s.Key(t.Context(), id)
		check.Problem(t, err, problem.NotFound)
		_, _, err = s.ReissueKey(t.Context(), id, apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { return k, nil })
		check.Problem(t, err, problem.NotFound)
	}
}

func TestDamagedKey(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storePlan(t, s, "shop-prod", "starter")
	for _, damage := range []map[string]any{
		{"secret": []byte("short")},
		{"secret": nil},
		{"previous_until": noon()},
		{"previous_until": noon(), "previous": make([]byte, 33)},
	} {
		k := storeKey(t, s, nil)
		ref := rawClient(t, project).Collection("keys").Doc(string(k.ID()))
		if _, err := ref.Set(t.Context(), damage, firestore.MergeAll); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Key(t.Context(), k.ID()); err == nil {
			t.Errorf("key with %v: got %v, want an error", damage, got)
		}
	}
}

func newKey(t testing.TB) apikey.Key {
	t.Helper()
	prefix, err := apikey.NewPrefix(apikey.Random())
	check.OK(t, err)
	full, err := apikey.NewSecret(apikey.Random(), prefix)
	check.OK(t, err)
	return apikey.Key{
		Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-starter",
		Status: apikey.Active, Secret: apikey.HashOf([]byte(full)), CreatedAt: noon(), CreatedBy: "ada", UpdatedAt: noon(),
	}
}

func storeKey(t testing.TB, s *store.Store, with func(*apikey.Key)) apikey.Key {
	t.Helper()
	k := newKey(t)
	if with != nil {
		with(&k)
	}
	if _, err := s.IssueKey(t.Context(), k, apikey.Request{}, 0); err != nil {
		t.Fatal(err)
	}
	return k
}

func storeApps(t testing.TB, s *store.Store, names ...string) {
	t.Helper()
	storetest.Environment(t, s, "shop", "prod")
	for _, name := range names {
		a := app.App{
			Name: name, Project: "shop", Environment: "prod", Namespace: "shop-prod", Host: name + ".example.com",
			Port: 8080, Gate: app.Gate{State: app.Ungated, Since: noon()}, CreatedAt: noon(), UpdatedAt: noon(),
		}
		check.OK(t, s.CreateApp(t.Context(), a, storetest.First(a)))
	}
}

func toPlan(id plan.ID) func(apikey.Key) (apikey.Key, error) {
	return func(k apikey.Key) (apikey.Key, error) {
		k.Plan = id
		return k, nil
	}
}

func TestKeyRequestDocument(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storePlan(t, s, "shop-prod", "starter")
	k := storeKey(t, s, nil)
	r := apikey.NewRequest("ada", "shop", "form-1", []byte("{}"), noon())
	rename := func(k apikey.Key) (apikey.Key, error) { k.Name += "x"; return k, nil }
	if _, _, err := s.ReissueKey(t.Context(), k.ID(), r, rename); err != nil {
		t.Fatal(err)
	}
	snap, err := rawClient(t, project).Collection("deliveries").Doc(r.ID).Get(t.Context())
	check.OK(t, err)
	want := map[string]any{"key": string(k.ID()), "content": r.Content, "expires_at": noon().Add(24 * time.Hour)}
	check.Equal(t, "document", want, snap.Data())
	if _, _, err := s.ReissueKey(t.Context(), k.ID(), r, rename); !problem.Is(err, problem.AlreadyIssued) {
		t.Errorf("repeated request: got %v, want already_issued", err)
	}
	if got, err := s.Key(t.Context(), k.ID()); err != nil || got.Name != k.Name+"x" {
		t.Errorf("name: got %q, %v, want one change", got.Name, err)
	}
}
