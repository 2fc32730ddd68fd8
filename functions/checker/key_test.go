package checker

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// wantLimits checks the fields of an answer; "" is none.
func wantLimits(t *testing.T, res *http.Response, policy, limit string) {
	t.Helper()
	if got := res.Header.Get("RateLimit-Policy"); got != policy {
		t.Errorf("%d: RateLimit-Policy: %s, want %s", res.StatusCode, got, policy)
	}
	if got := res.Header.Get("RateLimit"); got != limit {
		t.Errorf("%d: RateLimit: %s, want %s", res.StatusCode, got, limit)
	}
}

// TestLimitsAreTold on each 429, on a 200 whose proxy asks for them, and on nothing else.
func TestLimitsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it begins on 2000-01-01, a Saturday
		f := newFakeStore()
		full := issue(t, f, func(k *apikey.Key) { k.Plan = "plan-quota" })
		free := issue(t, f, nil)
		disabled := issue(t, f, func(k *apikey.Key) { k.Status = apikey.Disabled })
		f.putPlan(plan.Plan{ID: "plan-quota", Namespace: "shop-prod", Limits: plan.Limits{Rate: 1, Burst: 3, Quota: 5, Period: plan.Month}})
		r := newReplica(t, f)
		synctest.Wait()
		const (
			address = "/check/shop-prod/hello"
			policy  = `"rate";q=3;w=3, "quota";q=5;w=2678400`
		)
		wantLimits(t, r.askAt(address+"?limits=header", full), policy, `"rate";r=2;t=2, "quota";r=4;t=2678400`)
		wantLimits(t, r.askAt(address+"?limits=header&denial=header", full), policy, `"rate";r=1;t=1, "quota";r=3;t=2678400`)
		for _, query := range []string{"", "?denial=header", "?limits=header2", "?x&limits=header", "?limits"} {
			time.Sleep(time.Second)
			wantLimits(t, r.askAt(address+query, free), "", "")
		}
		wantLimits(t, r.askAt(address+"?limits=header&path=/a?b=c", full), policy, `"rate";r=2;t=2, "quota";r=2;t=2678395`)
		r.askAt(address, full)
		r.askAt(address, full)
		time.Sleep(time.Second)
		quota := r.askAt(address, full)
		wantCode(t, quota, http.StatusTooManyRequests, "quota_exhausted")
		wantLimits(t, quota, policy, `"rate";r=0;t=1, "quota";r=0;t=2678394`)
		for range 3 {
			r.askAt(address, free)
		}
		rate := r.askAt(address, free)
		wantCode(t, rate, http.StatusTooManyRequests, "rate_limited")
		wantLimits(t, rate, `"rate";q=3;w=3`, `"rate";r=0;t=1`)
		for _, key := range []string{"", "nonsense", disabled, issue(t, newFakeStore(), nil)} {
			refused := r.askAt(address+"?limits=header", key)
			wantCode(t, refused, http.StatusUnauthorized, "invalid_key")
			wantLimits(t, refused, "", "")
		}
		r.stop()
	})
}
