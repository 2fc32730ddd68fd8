package store_test

import (
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/store/storetest"
)

func newKey(t testing.TB) apikey.Key {
	t.Helper()
	prefix, err := apikey.NewPrefix(apikey.Random())
	if err != nil {
		t.Fatal(err)
	}
	full, err := apikey.NewSecret(apikey.Random(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return apikey.Key{
		Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-starter",
		Status: apikey.Active, Secret: apikey.HashOf([]byte(full)), CreatedAt: noon(), CreatedBy: "ada", UpdatedAt: noon(),
	}
}

// storeKey stores a key of plan-starter in shop-prod, changed by with.
func storeKey(t testing.TB, s *store.Store, with func(*apikey.Key)) apikey.Key {
	t.Helper()
	k := newKey(t)
	if with != nil {
		with(&k)
	}
	if err := s.CreateKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return k
}

// storeApps stores apps in shop-prod, and first the project and the environment.
func storeApps(t testing.TB, s *store.Store, names ...string) {
	t.Helper()
	storetest.Environment(t, s, "shop", "prod")
	for _, name := range names {
		a := app.App{
			Name: name, Project: "shop", Environment: "prod", Namespace: "shop-prod", Host: name + ".example.com",
			Port: 8080, Gate: app.Gate{State: app.Ungated, Since: noon()}, CreatedAt: noon(), UpdatedAt: noon(),
		}
		if err := s.CreateApp(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

func toPlan(id plan.ID) func(apikey.Key) (apikey.Key, error) {
	return func(k apikey.Key) (apikey.Key, error) {
		k.Plan = id
		return k, nil
	}
}
