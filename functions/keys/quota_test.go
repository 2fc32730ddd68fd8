package keys

import (
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestReleaseQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	soft := w.makeKey()
	read[wire.Plan](w.do(http.MethodPost, prod+"/plans", `{"name":"Metered","rate":10,"burst":100,"quota":1000,"quota_period":"month","quota_mode":"hard"}`), http.StatusCreated)
	hard := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-metered"}`).issued(http.StatusCreated)
	path := func(id string) string { return shop + "/api-keys/" + id + "/quota/release" }
	for _, id := range []string{soft.ID, hard.ID} {
		if got := read[wire.ReleasedQuota](w.as("olga", http.MethodPost, path(id), ""), http.StatusOK); got != (wire.ReleasedQuota{}) {
			t.Errorf("%s: got %+v", id, got)
		}
	}
	term := usage.QuotaPeriodAt(apikey.Prefix(hard.Prefix), plan.Month, w.service.now())
	check.OK(t, w.store.Lease(t.Context(), term, "RUN", false, func(int64, int64) int64 { return 100 }))
	w.as("olga", http.MethodPost, path(hard.ID), "").Refused(http.StatusConflict, problem.QuotaHeld)
	w.as("ada", http.MethodPost, path(hard.ID), "").Refused(http.StatusForbidden, problem.Forbidden)
	w.as("olga", http.MethodPost, bank+"/api-keys/"+hard.ID+"/quota/release", "").Refused(http.StatusNotFound, problem.NotFound)
}
