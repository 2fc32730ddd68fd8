package checker

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/functions/checker/internal/denials"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/long"
)

// sendCheck sends a check like the proxy. headers contains names and values; the value "" deletes a
// header.
func (r *replica) sendCheck(address string, headers ...string) *http.Response {
	header := http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			header.Del(headers[i])
			continue
		}
		header.Add(headers[i], headers[i+1])
	}
	return serve(r, http.MethodGet, "/check/"+address, header)
}

func (r *replica) with(key string) *http.Response {
	return r.sendCheck("shop-prod/hello", "X-Api-Key", key)
}

func serve(h http.Handler, method, address string, header http.Header) *http.Response {
	req := httptest.NewRequest(method, address, nil)
	maps.Copy(req.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Result()
}

func wantOK(t *testing.T, res *http.Response) {
	t.Helper()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status: got %d, want 200", res.StatusCode)
	}
}

func wantCode(t *testing.T, res *http.Response, status int, code string) {
	t.Helper()
	var body wire.Error
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Fatalf("status %d, body: %v", res.StatusCode, err)
	}
	if res.StatusCode != status || body.Code != code || body.Message == "" {
		t.Errorf("got %d %q, want %d %q", res.StatusCode, body.Code, status, code)
	}
	want := map[string]string{
		"Content-Type": "application/json", "Access-Control-Allow-Origin": "*",
		"Access-Control-Expose-Headers": "Retry-After", "Vary": "Origin", "Cache-Control": "no-store",
		"WWW-Authenticate": "",
	}
	if status == http.StatusUnauthorized {
		want["WWW-Authenticate"] = `ApiKey realm="sluice"`
	}
	for name, value := range want {
		if res.Header.Get(name) != value {
			t.Errorf("%s: got %q, want %q", name, res.Header.Get(name), value)
		}
	}
}

func TestAllowedRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, func(k *apikey.Key) { k.Name = "Café 1" })
		res := r.with(full)
		want := http.Header{"X-Service-Key-Prefix": {full[7:15]}, "X-Service-Key-Name": {"Caf%C3%A9 1"}}
		wantOK(t, res)
		check.Equal(t, "headers", want, res.Header)
		nameless := issue(t, r.store, nil)
		synctest.Wait()
		if h := r.sendCheck("shop-prod/hello", "X-Api-Key", nameless).Header; len(h) != 1 {
			t.Errorf("headers of a key without a name: got %v, want only the prefix", h)
		}
	})
}

// TestRefusalsAreAlike tests that all 401s are equal except for their request ID.
func TestRefusalsAreAlike(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		good := issue(t, f, nil)
		r := newReplica(t, f)
		requests := []struct {
			reason  string
			headers []string
		}{
			{"malformed", []string{"X-Api-Key", " "}},
			{"malformed", []string{"X-Api-Key", "garbage"}},
			{"malformed", []string{"X-Api-Key", good[:len(good)-1] + "-"}},
			{"unknown", []string{"X-Api-Key", issue(t, newFakeStore(), nil)}},
			{"disabled", []string{"X-Api-Key", issue(t, f, func(k *apikey.Key) { k.Status = apikey.Disabled })}},
			{"unknown", []string{"X-Api-Key", issue(t, f, func(k *apikey.Key) { k.Status = apikey.Revoked })}},
			{"expired", []string{"X-Api-Key", issue(t, f, func(k *apikey.Key) { k.ExpiresAt = time.Now() })}},
			{"wrong_app", []string{"X-Api-Key", issue(t, f, func(k *apikey.Key) { k.Apps = []string{"other"} })}},
			{"wrong_environment", []string{"X-Api-Key", issue(t, f, func(k *apikey.Key) { k.Namespace = "shop-test" })}},
			{"wrong_secret", []string{"X-Api-Key", issue(t, f, func(k *apikey.Key) { k.Secret[0] ^= 1 })}},
			{"repeated", []string{"X-Api-Key", good, "X-Api-Key", good}},
			{"connect", []string{"X-Api-Key", good, "X-Forwarded-Method", "", "X-Forwarded-Method", "CONNECT"}},
		}
		synctest.Wait()
		none := r.sendCheck("shop-prod/hello")
		seen := map[string]bool{takeID(t, none): true}
		body := readAll(t, none)
		if none.StatusCode != http.StatusUnauthorized || !strings.Contains(body, `"invalid_key"`) || none.Header.Get("Retry-After") != "" ||
			none.Header.Get("WWW-Authenticate") != `ApiKey realm="sluice"` {
			t.Fatalf("without a key: got %d %s", none.StatusCode, body)
		}
		for _, tt := range requests {
			res := r.sendCheck("shop-prod/hello", tt.headers...)
			id := takeID(t, res)
			if seen[id] {
				t.Errorf("%s: request ID %s is repeated", tt.reason, id)
			}
			seen[id] = true
			if diff := cmp.Diff(body, readAll(t, res)); diff != "" || res.StatusCode != none.StatusCode {
				t.Errorf("%s: got status %d, diff of bodies (-want +got):\n%s", tt.reason, res.StatusCode, diff)
			}
			if diff := cmp.Diff(none.Header, res.Header); diff != "" {
				t.Errorf("%s: diff of headers (-want +got):\n%s", tt.reason, diff)
			}
			if got := r.reasons(t, id); !slices.Equal(got, []string{tt.reason}) {
				t.Errorf("%s: recorded reasons: got %v", tt.reason, got)
			}
		}
	})
}

func takeID(t *testing.T, res *http.Response) string {
	t.Helper()
	id := res.Header.Get("X-Request-Id")
	if !reqctx.ValidID(id) {
		t.Errorf("request ID of a denial: got %q, want a valid one", id)
	}
	res.Header.Del("X-Request-Id")
	return id
}

func (r *replica) reasons(t *testing.T, id string) []string {
	t.Helper()
	a := functest.Call{Method: http.MethodGet, Path: "/denials?request_id=" + id}.Send(t, r.Private())
	list := functest.Read[struct{ Items []denials.Denial }](a, http.StatusOK)
	var found []string
	for _, d := range list.Items {
		found = append(found, d.Reason)
	}
	return found
}

func (r *replica) wantReason(t *testing.T, res *http.Response, status int, code, reason string) {
	t.Helper()
	id := res.Header.Get("X-Request-Id")
	wantCode(t, res, status, code)
	if got := r.reasons(t, id); !slices.Equal(got, []string{reason}) {
		t.Errorf("recorded reasons: got %v, want %s", got, reason)
	}
}

func TestDenialIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, func(k *apikey.Key) { k.Status = apikey.Revoked })
		res := r.sendCheck("shop-prod/hello", "X-Api-Key", full, "X-Request-Id", "mine-1", "X-Forwarded-For", "203.0.113.9")
		if got := res.Header.Get("X-Request-Id"); got != "mine-1" {
			t.Errorf("request ID: got %q, want mine-1", got)
		}
		want := []denials.Denial{{
			At: time.Now().UTC(), RequestID: "mine-1", Code: "invalid_key", Reason: "unknown", Namespace: "shop-prod", App: "hello",
			KeyPrefix: full[7:15], Method: "GET", Address: "203.0.113.9",
		}}
		check.Equal(t, "recorded denials", want, r.denials.Find("mine-1", 9))
		for id, tt := range map[string]struct{ reason, address string }{
			"bad-1": {"bad_address", "shop-prod"},
			"bad-2": {"bad_address", "shop-prod/" + strings.Repeat("x", 1<<10)},
		} {
			r.sendCheck(tt.address, "X-Request-Id", id)
			if got := r.denials.Find(id, 9); len(got) != 1 || got[0].Reason != tt.reason || got[0].App != "" {
				t.Errorf("%s: recorded denials: got %+v", id, got)
			}
		}
	})
}

func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	var b strings.Builder
	check.OK(t, res.Write(&b))
	return b.String()
}

func TestMisconfigured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		for _, address := range []string{"", "shop-prod", "shop-prod/", "/hello", "shop-prod/hello*", "Shop/hello", "shop_prod/hello", "a.b/c"} {
			wantCode(t, r.sendCheck(address, "X-Api-Key", full), http.StatusInternalServerError, "misconfigured")
		}
		wantCode(t, r.sendCheck("shop-prod/hello", "X-Api-Key", full, "X-Forwarded-Method", ""), http.StatusInternalServerError, "misconfigured")
		wantCode(t, serve(r, http.MethodGet, "/anything", nil), http.StatusInternalServerError, "misconfigured")
	})
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		options := []string{"X-Forwarded-Method", "", "X-Forwarded-Method", "OPTIONS"}
		res := r.sendCheck("shop-prod/hello", append(options, "Access-Control-Request-Method", "GET", "X-Api-Key", full)...)
		if res.StatusCode != http.StatusOK || len(res.Header) != 0 {
			t.Errorf("preflight: got %d %v, want 200 without headers", res.StatusCode, res.Header)
		}
		wantCode(t, r.sendCheck("shop-prod/hello", options...), http.StatusUnauthorized, "invalid_key")
		wantCode(t, r.sendCheck("shop-prod/hello", "Access-Control-Request-Method", "GET"), http.StatusUnauthorized, "invalid_key")
	})
}

func TestPreflightWhileDenying(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := stalled(t)
		options := []string{"X-Forwarded-Method", "", "X-Forwarded-Method", "OPTIONS", "X-Api-Key", full}
		preflight := append(options, "Access-Control-Request-Method", "GET")
		if res := r.sendCheck("shop-prod/hello", preflight...); res.StatusCode != http.StatusOK || len(res.Header) != 0 {
			t.Errorf("preflight: got %d %v, want 200 without headers", res.StatusCode, res.Header)
		}
		wantCode(t, r.sendCheck("shop-prod/hello", options...), http.StatusServiceUnavailable, "gate_unavailable")
		wantCode(t, r.sendCheck("Shop/hello", preflight...), http.StatusInternalServerError, "misconfigured")
		r.store.stall(false)
		synctest.Wait()
	})
}

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		for range 3 {
			wantOK(t, r.with(full))
		}
		res := r.with(full)
		wantCode(t, res, http.StatusTooManyRequests, "rate_limited")
		if res.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After: got %q, want 1", res.Header.Get("Retry-After"))
		}
		time.Sleep(time.Second)
		wantOK(t, r.with(full))
		r.store.putPlan(plan.Plan{ID: "plan-a", Namespace: "shop-prod", Limits: plan.Limits{Rate: 1000, Burst: 10}})
		synctest.Wait()
		// The debt is larger than the new plan permits. The first request limits it.
		wantCode(t, r.with(full), http.StatusTooManyRequests, "rate_limited")
		time.Sleep(10 * time.Millisecond)
		wantOK(t, r.with(full))
	})
}

func TestLimitsOfAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		quota := func(n int64) {
			f.putPlan(plan.Plan{ID: "plan-quota", Namespace: "shop-prod", Limits: plan.Limits{Rate: 1, Burst: 3, Quota: n, Period: plan.Month}})
		}
		quota(5)
		var rotated apikey.Key
		old := issue(t, f, func(k *apikey.Key) { k.Plan = "plan-quota"; rotated = *k })
		full, err := apikey.NewSecret(apikey.Random(), rotated.Prefix)
		check.OK(t, err)
		rotated.Previous, rotated.PreviousUntil = rotated.Secret, time.Now().Add(time.Hour)
		rotated.Secret = apikey.HashOf([]byte(string(full)))
		f.putKey(rotated)
		other := issue(t, f, func(k *apikey.Key) { k.Plan = "plan-quota" })
		r := newReplica(t, f)
		synctest.Wait()

		ask := func(key, want string) {
			t.Helper()
			res := r.with(key)
			if want == "" && res.StatusCode == http.StatusOK {
				return
			}
			wantCode(t, res, http.StatusTooManyRequests, want)
		}
		for range 10 {
			r.sendCheck("shop-prod/hello", "X-Forwarded-Method", "", "X-Forwarded-Method", "OPTIONS", "Access-Control-Request-Method", "GET", "X-Api-Key", old)
		}
		for _, key := range []string{old, string(full), old, other, other, other} {
			ask(key, "")
		}
		for _, key := range []string{old, string(full), other} {
			ask(key, "rate_limited")
		}
		for _, key := range []string{string(full), old} {
			time.Sleep(time.Second)
			ask(key, "")
		}
		for _, key := range []string{string(full), old, old} {
			time.Sleep(time.Second)
			ask(key, "quota_exhausted")
		}
		quota(6)
		time.Sleep(time.Second)
		ask(string(full), "")
		time.Sleep(time.Second)
		ask(old, "quota_exhausted")
		ask(other, "")
	})
}

func TestQuotaOfAReturningKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		f.putPlan(plan.Plan{ID: "plan-quota", Namespace: "shop-prod", Limits: plan.Limits{Rate: 100, Burst: 100, Quota: 3, Period: plan.Month}})
		var key apikey.Key
		full := issue(t, f, func(k *apikey.Key) { k.Plan = "plan-quota"; key = *k })
		r := newReplica(t, f)
		synctest.Wait()
		for range 2 {
			wantOK(t, r.with(full))
		}
		f.set(func() { delete(f.keys, string(key.ID())) })
		synctest.Wait()
		wantCode(t, r.with(full), http.StatusUnauthorized, "invalid_key")
		f.putKey(key)
		synctest.Wait()
		wantOK(t, r.with(full)) // last of the quota
		wantCode(t, r.with(full), http.StatusTooManyRequests, "quota_exhausted")
	})
}

func TestFreshness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := stalled(t)
		get := func() *http.Response { return r.with(full) }
		ready := func() int { return serve(r, http.MethodGet, "/readyz", nil).StatusCode }
		res := get()
		wantCode(t, res, http.StatusServiceUnavailable, "gate_unavailable")
		if res.Header.Get("Retry-After") != "10" || ready() != http.StatusServiceUnavailable {
			t.Errorf("before the first proof: got Retry-After %q and readiness %d, want 10 and 503", res.Header.Get("Retry-After"), ready())
		}
		r.store.stall(false)
		synctest.Wait()
		if get().StatusCode != http.StatusOK || ready() != http.StatusOK {
			t.Error("a proven replica denies requests or is not ready")
		}
		r.store.endListeners()
		synctest.Wait()
		if get().StatusCode == http.StatusServiceUnavailable {
			t.Error("a request is denied after a listener has ended")
		}
		time.Sleep(time.Minute)
		r.store.stall(true)
		time.Sleep(Ceiling)
		wantCode(t, get(), http.StatusServiceUnavailable, "gate_unavailable")
		if ready() != http.StatusOK {
			t.Error("a stale replica is not ready")
		}
		r.store.putKey(apikey.Key{Prefix: apikey.Prefix(full[7:15]), Namespace: "shop-prod", Plan: "plan-a", Status: apikey.Revoked, Secret: apikey.HashOf([]byte(full))})
		r.store.stall(false)
		for get().StatusCode == http.StatusServiceUnavailable {
			time.Sleep(time.Millisecond)
		}
		wantCode(t, get(), http.StatusUnauthorized, "invalid_key")
	})
}

func TestMissedChangesDenyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		r.store.set(func() { r.store.missed = true })
		synctest.Wait()
		wantCode(t, r.with(full), http.StatusServiceUnavailable, "gate_unavailable")
		r.store.set(func() { r.store.missed = false })
		time.Sleep(20 * time.Second)
		wantOK(t, r.with(full))
	})
}

func TestHardQuota(t *testing.T) {
	t.Parallel()
	const quota = 60
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		key := issue(t, f, func(k *apikey.Key) { k.Plan = "plan-hard" })
		f.putPlan(plan.Plan{ID: "plan-hard", Namespace: "shop-prod", Limits: plan.Limits{Rate: 100, Burst: 10, Quota: quota, Period: plan.Month, Hard: true}})
		r := newReplica(t, f)
		served := 0
		until := func(status int, code, reason string) {
			t.Helper()
			for range 2 * quota {
				time.Sleep(20 * time.Millisecond)
				res := r.with(key)
				if res.StatusCode == http.StatusOK {
					served++
					continue
				}
				r.wantReason(t, res, status, code, reason)
				return
			}
			t.Fatalf("got %d allowed requests, want a denial", served)
		}
		time.Sleep(time.Second)
		f.stall(true)
		until(http.StatusServiceUnavailable, "gate_unavailable", "unleased")
		if served == 0 || served > quota/2 {
			t.Errorf("allowed while the store is stalled: got %d, want 1 to %d", served, quota/2)
		}
		f.stall(false)
		time.Sleep(10 * time.Second)
		until(http.StatusTooManyRequests, "quota_exhausted", "quota")
		if served != quota {
			t.Errorf("allowed: got %d, want %d", served, quota)
		}
	})
}

func TestQuotaWhileCountsAreUnshared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		small := issue(t, f, func(k *apikey.Key) { k.Plan = "plan-small" })
		large := issue(t, f, func(k *apikey.Key) { k.Plan = "plan-large" })
		free := issue(t, f, nil)
		for id, quota := range map[plan.ID]int64{"plan-small": 100, "plan-large": 100_000} {
			f.putPlan(plan.Plan{ID: id, Namespace: "shop-prod", Limits: plan.Limits{Rate: 10, Burst: 10, Quota: quota, Period: plan.Month}})
		}
		r := newReplica(t, f)
		synctest.Wait()
		wants := func(key string, status int) {
			t.Helper()
			res := r.with(key)
			if status != http.StatusServiceUnavailable {
				if res.StatusCode != status {
					t.Errorf("status: got %d, want %d", res.StatusCode, status)
				}
				return
			}
			r.wantReason(t, res, status, "gate_unavailable", "unshared")
		}
		all := func(ofSmall int) {
			t.Helper()
			wants(small, ofSmall)
			wants(large, http.StatusOK)
			wants(free, http.StatusOK)
		}
		time.Sleep(long.Pick(time.Minute, time.Hour)) // no counts to share
		all(http.StatusOK)
		time.Sleep(4 * time.Second)
		f.stall(true)
		all(http.StatusOK)
		time.Sleep(3 * time.Second)
		all(http.StatusOK)
		time.Sleep(5 * time.Second)
		all(http.StatusServiceUnavailable)
		f.stall(false)
		time.Sleep(3 * time.Second)
		all(http.StatusOK)
	})
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	good := Config{Replica: "checker-0", MaxStaleness: Ceiling, CanaryInterval: time.Second, FlushInterval: time.Second, MaxUnshared: 5 * time.Second}
	tests := []struct {
		name   string
		change func(*Config)
		ok     bool
	}{
		{"as it is", func(*Config) {}, true},
		{"above the ceiling", func(c *Config) { c.MaxStaleness = Ceiling + 1 }, false},
		{"no staleness", func(c *Config) { c.MaxStaleness = 0 }, false},
		{"canaries too rare", func(c *Config) { c.CanaryInterval = 31 * time.Second }, false},
		{"flush too rare", func(c *Config) { c.FlushInterval = 3 * time.Second }, false},
		{"unshared sooner than flushed", func(c *Config) { c.MaxUnshared = time.Second }, false},
		{"unshared above the ceiling", func(c *Config) { c.MaxUnshared = Ceiling + 1 }, false},
		{"replica breaks out of an id", func(c *Config) { c.Replica = "a/b" }, false},
		{"no replica", func(c *Config) { c.Replica = "" }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := good
			test.change(&c)
			if err := c.Check(); (err == nil) != test.ok {
				t.Errorf("error: got %v, want valid %v", err, test.ok)
			}
		})
	}
}
