package checker

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func wantLimits(t *testing.T, res *http.Response, policy, limit string) {
	t.Helper()
	if got := res.Header.Get("RateLimit-Policy"); got != policy {
		t.Errorf("%d: RateLimit-Policy: got %s, want %s", res.StatusCode, got, policy)
	}
	if got := res.Header.Get("RateLimit"); got != limit {
		t.Errorf("%d: RateLimit: got %s, want %s", res.StatusCode, got, limit)
	}
}

// TestLimitsAreTold tests that only 429s contain the headers, and 200s if the proxy requests
// them.
func TestLimitsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // starts on 2000-01-01, a Saturday
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
		wantLimits(t, r.sendCheckAt(address+"?limits=header", full), policy, `"rate";r=2;t=2, "quota";r=4;t=2678400`)
		wantLimits(t, r.sendCheckAt(address+"?limits=header&denial=header", full), policy, `"rate";r=1;t=1, "quota";r=3;t=2678400`)
		for _, query := range []string{"", "?denial=header", "?limits=header2", "?x&limits=header", "?limits"} {
			time.Sleep(time.Second)
			wantLimits(t, r.sendCheckAt(address+query, free), "", "")
		}
		wantLimits(t, r.sendCheckAt(address+"?limits=header&path=/a?b=c", full), policy, `"rate";r=2;t=2, "quota";r=2;t=2678395`)
		r.sendCheckAt(address, full)
		r.sendCheckAt(address, full)
		time.Sleep(time.Second)
		quota := r.sendCheckAt(address, full)
		wantCode(t, quota, http.StatusTooManyRequests, "quota_exhausted")
		wantLimits(t, quota, policy, `"rate";r=0;t=1, "quota";r=0;t=2678394`)
		for range 3 {
			r.sendCheckAt(address, free)
		}
		rate := r.sendCheckAt(address, free)
		wantCode(t, rate, http.StatusTooManyRequests, "rate_limited")
		wantLimits(t, rate, `"rate";q=3;w=3`, `"rate";r=0;t=1`)
		for _, key := range []string{"", "nonsense", disabled, issue(t, newFakeStore(), nil)} {
			refused := r.sendCheckAt(address+"?limits=header", key)
			wantCode(t, refused, http.StatusUnauthorized, "invalid_key")
			wantLimits(t, refused, "", "")
		}
	})
}

func (r *replica) getKey(method string, headers ...string) *http.Response {
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Add(headers[i], headers[i+1])
	}
	return serve(r, method, "/api/v1/key", header)
}

func wantShown(t *testing.T, res *http.Response, want wire.OwnKey) {
	t.Helper()
	var got wire.OwnKey
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("key info: got status %d, error %v", res.StatusCode, err)
	}
	check.Equal(t, "key", want, got)
	header := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}}
	takeID(t, res)
	check.Equal(t, "headers", header, res.Header)
}

// TestKeyIsShown also tests that requests consume neither rate nor quota.
func TestKeyIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // starts on 2000-01-01, a Saturday
		f := newFakeStore()
		expires := time.Now().Add(time.Hour).UTC()
		full := issue(t, f, func(k *apikey.Key) {
			k.Plan, k.Environment, k.Name, k.Apps, k.ExpiresAt = "plan-quota", "prod", "Café 5%", []string{"hello", "shop"}, expires
		})
		f.putPlan(plan.Plan{ID: "plan-quota", Namespace: "shop-prod", Name: "Little", Limits: plan.Limits{Rate: 0.5, Burst: 3, Quota: 3, Period: plan.Week}})
		free := issue(t, f, func(k *apikey.Key) { k.Environment = "prod" })
		f.putPlan(plan.Plan{ID: "plan-a", Namespace: "shop-prod", Name: "All", Limits: plan.Limits{Rate: 3, Burst: 7}})
		r := newReplica(t, f)
		synctest.Wait()
		quota, period, monday := int64(3), "week", time.Date(2000, 1, 3, 0, 0, 0, 0, time.UTC)
		left := func(used, remaining int64) wire.OwnKey {
			return wire.OwnKey{
				Prefix: full[7:15], Name: "Café 5%", Environment: "prod", Apps: []string{"hello", "shop"}, Scope: "apps", Plan: "plan-quota", PlanName: "Little", Rate: 0.5, Burst: 3,
				Quota: &quota, QuotaPeriod: &period, Used: &used, Remaining: &remaining, ResetsAt: &monday, ExpiresAt: &expires,
			}
		}
		wantShown(t, r.getKey("GET", "X-Api-Key", full), left(0, 3))
		for range 3 {
			r.with(full)
		}
		wantShown(t, r.getKey("GET", "X-Api-Key", full, "X-Forwarded-Method", "OPTIONS", "Access-Control-Request-Method", "GET"), left(3, 0))
		if res := r.getKey("HEAD", "X-Api-Key", full); res.StatusCode != http.StatusOK {
			t.Errorf("HEAD: got %d, want 200", res.StatusCode)
		}
		wantShown(t, r.getKey("GET", "X-Api-Key", full), left(3, 0))
		wantShown(t, r.getKey("GET", "X-Api-Key", full), left(3, 0))
		often := r.getKey("GET", "X-Api-Key", full)
		wantCode(t, often, http.StatusTooManyRequests, "rate_limited")
		wantLimits(t, often, `"key";q=5;w=5`, `"key";r=0;t=1`)
		wantShown(t, r.getKey("GET", "X-Api-Key", free), wire.OwnKey{
			Prefix: free[7:15], Environment: "prod", Apps: []string{}, Scope: "all", Plan: "plan-a", PlanName: "All", Rate: 3, Burst: 7,
		})
		time.Sleep(2 * time.Second)
		for range 2 {
			wantShown(t, r.getKey("GET", "X-Api-Key", full), left(3, 0))
		}
		wantCode(t, r.getKey("GET", "X-Api-Key", full), http.StatusTooManyRequests, "rate_limited")
		withoutPlan := issue(t, f, func(k *apikey.Key) { k.Plan = "plan-gone" })
		synctest.Wait()
		wantCode(t, r.getKey("GET", "X-Api-Key", withoutPlan), http.StatusServiceUnavailable, "gate_unavailable")
	})
}

func TestKeyIsNotShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		good := issue(t, f, nil)
		rotated := issue(t, f, func(k *apikey.Key) { k.Secret[0] ^= 1 })
		f.stall(true)
		r := newReplica(t, f)
		refused := map[string][]string{
			"missing":      {},
			"malformed":    {"X-Api-Key", "garbage"},
			"unknown":      {"X-Api-Key", issue(t, newFakeStore(), nil), "Access-Control-Request-Method", "GET"},
			"disabled":     {"X-Api-Key", issue(t, f, func(k *apikey.Key) { k.Status = apikey.Disabled })},
			"expired":      {"X-Api-Key", issue(t, f, func(k *apikey.Key) { k.ExpiresAt = time.Now() })},
			"wrong_secret": {"X-Api-Key", rotated, checkers.NonceHeader, checkers.NewNonce()},
			"repeated":     {"X-Api-Key", good, "X-Api-Key", good},
		}
		synctest.Wait()
		if res := r.getKey("GET", "X-Api-Key", good); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("before the first proof: got %d, want 503", res.StatusCode)
		}
		f.stall(false)
		synctest.Wait()
		none := r.sendCheck("shop-prod/hello")
		takeID(t, none)
		body := readAll(t, none)
		for reason, headers := range refused {
			res := r.getKey("GET", append(headers, "X-Forwarded-Method", "FORGED")...)
			id := takeID(t, res)
			if diff := cmp.Diff(body, readAll(t, res)); diff != "" {
				t.Errorf("%s: diff of bodies (-want +got):\n%s", reason, diff)
			}
			if diff := cmp.Diff(none.Header, res.Header); diff != "" {
				t.Errorf("%s: diff of headers (-want +got):\n%s", reason, diff)
			}
			if noted := r.denials.Find(id, 9); len(noted) != 1 || noted[0].Reason != reason || noted[0].Method != http.MethodGet {
				t.Errorf("%s: recorded denials: got %+v", reason, noted)
			}
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", ""} {
			req := httptest.NewRequest(http.MethodGet, "/api/v1/key", nil)
			req.Method = method
			req.Header.Set("X-Api-Key", good)
			req.Header.Set("Origin", "https://shop.example")
			req.Header.Set("Access-Control-Request-Method", "GET")
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			takeID(t, w.Result())
			if h := w.Header(); w.Code != http.StatusMethodNotAllowed || h.Get("Allow") != "GET, HEAD" || h.Get("Access-Control-Allow-Origin") != "" ||
				!strings.Contains(w.Body.String(), `"method_not_allowed"`) {
				t.Errorf("%s: got %d %v %s, want 405", method, w.Code, h, w.Body)
			}
		}
		connect := httptest.NewRequest(http.MethodConnect, "sluice.example.com:443", nil)
		connect.URL = &url.URL{Host: connect.Host} // as in a CONNECT over HTTP/2
		w := httptest.NewRecorder()
		if r.ServeHTTP(w, connect); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("CONNECT without a path: got %d, want 405", w.Code)
		}
		for _, path := range []string{"/api/v1/key/", "/api/v1/keys", "/api/v1/key/x", "//api/v1/key", "/API/v1/key"} {
			if res := r.sendCheckAt(path, good); res.StatusCode != http.StatusInternalServerError {
				t.Errorf("%s: got %d, want 500", path, res.StatusCode)
			}
		}
	})
}
