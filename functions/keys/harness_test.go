package keys

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

const (
	prod    = "/api/v1/projects/shop/environments/prod"
	staging = "/api/v1/projects/shop/environments/staging"
	shop    = "/api/v1/projects/shop"
	bank    = "/api/v1/projects/bank"
)

func members(project string) map[string]app.Role {
	return map[string]map[string]app.Role{
		"shop": {"ada": app.Developer, "vera": app.Viewer, "olga": app.Owner},
		"bank": {"bob": app.Developer, "olga": app.Owner},
	}[project]
}

// world is the function with a store. Project shop has environments prod (apps hello and other)
// and staging (app hello); project bank has prod. In shop, ada is a developer and vera a viewer;
// bob is a developer in bank.
type world struct {
	testing.TB
	service *Service
	handler http.Handler
	store   *store.Store
	clock   functest.Clock
	log     functest.Log
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldIn(t, storetest.Project(t))
}

func newWorldIn(t testing.TB, project string) *world {
	t.Helper()
	w := &world{TB: t, store: storetest.Open(t, project)}
	w.clock.Set(time.Date(2026, 3, 14, 12, 0, 0, 123456789, time.UTC))
	w.service = New(Config{MaxKeys: 10000}, w.store, functest.Sessions{}, w.log.Logger(), nil)
	w.service.now = w.clock.Now
	w.handler = w.service.Handler()
	w.addEnvironment("shop", "prod", "hello", "other")
	w.addEnvironment("shop", "staging", "hello")
	w.addEnvironment("bank", "prod")
	return w
}

func (w *world) addEnvironment(project, name string, apps ...string) {
	w.Helper()
	storetest.EnvironmentOf(w, w.store, app.Project{Name: project, Members: members(project)}, name)
	for _, a := range apps {
		storetest.App(w, w.store, app.App{Name: a, Project: project, Environment: name})
	}
}

type answer struct{ functest.Answer }

func (a answer) key() wire.Key   { a.Helper(); return read[wire.Key](a, http.StatusOK) }
func (a answer) plan() wire.Plan { a.Helper(); return read[wire.Plan](a, http.StatusOK) }
func (a answer) issued(status int) wire.IssuedKey {
	a.Helper()
	return read[wire.IssuedKey](a, status)
}

func read[T any](a answer, status int) (v T) {
	a.Helper()
	if err := json.Unmarshal(a.Is(status).Body, &v); err != nil {
		a.Fatalf("%s: %v: %s", a.Call.Path, err, a.Body)
	}
	return v
}

func (w *world) as(user, method, path, body string) answer {
	w.Helper()
	return w.send(user, method, path, body, nil)
}

func (w *world) send(user, method, path, body string, head http.Header) answer {
	w.Helper()
	return answer{functest.Call{Method: method, Path: path, Body: body, User: user, Header: head}.Send(w, w.handler)}
}

func (w *world) do(method, path, body string) answer {
	w.Helper()
	return w.as("ada", method, path, body)
}

func (w *world) makePlan(environment string) {
	w.Helper()
	read[wire.Plan](w.as("olga", http.MethodPost, environment+"/plans", `{"name":"Starter","rate":10,"burst":20}`), http.StatusCreated)
}

func (w *world) makeKey() wire.IssuedKey {
	w.Helper()
	return w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter"}`).issued(http.StatusCreated)
}

func (w *world) stored(id string) apikey.Key {
	w.Helper()
	k, err := w.store.Key(w.Context(), apikey.ID(id))
	check.OK(w, err)
	return k
}

func (w *world) countKeys() int {
	w.Helper()
	keys, _, err := w.store.Keys(w.Context(), store.KeyFilter{Project: "shop", Environment: "prod"}, store.Page{Size: 500})
	check.OK(w, err)
	return len(keys)
}

func (w *world) countPlans() int {
	w.Helper()
	plans, _, err := w.store.Plans(w.Context(), "shop-prod", store.Page{Size: 500})
	check.OK(w, err)
	return len(plans)
}

func (w *world) storedPlan(id plan.ID) plan.Plan {
	w.Helper()
	p, err := w.store.Plan(w.Context(), "shop-prod", id)
	check.OK(w, err)
	return p
}
