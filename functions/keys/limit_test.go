package keys

import (
	"net/http"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
)

func TestKeysOfAnEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.service.cfg.MaxKeys = 5
	w.makePlan(prod)
	w.makePlan(staging)
	const create = `{"plan":"plan-starter"}`
	var creating sync.WaitGroup
	for range 12 {
		creating.Go(func() { w.do(http.MethodPost, prod+"/api-keys", create) })
	}
	creating.Wait()
	if n := w.countKeys(); n != 5 {
		t.Fatalf("created keys: got %d, want 5", n)
	}
	w.do(http.MethodPost, prod+"/api-keys", create).Refused(http.StatusConflict, problem.TooManyKeys)
	w.do(http.MethodPost, staging+"/api-keys", create).issued(http.StatusCreated)
	keys, _, err := w.store.Keys(t.Context(), store.KeyFilter{Project: "shop", Environment: "prod"}, store.Page{Size: 10})
	check.OK(t, err)
	w.do(http.MethodPatch, shop+"/api-keys/"+string(keys[0].ID()), `{"status":"disabled"}`).key()
	w.do(http.MethodPost, prod+"/api-keys", create).Refused(http.StatusConflict, problem.TooManyKeys)
	w.do(http.MethodPost, shop+"/api-keys/"+string(keys[0].ID())+"/revoke", "").key()
	w.do(http.MethodPost, prod+"/api-keys", create).issued(http.StatusCreated)
	w.do(http.MethodPost, prod+"/api-keys", create).Refused(http.StatusConflict, problem.TooManyKeys)
}
