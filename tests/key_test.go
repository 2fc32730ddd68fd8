package tests

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// ownKey asks for the key that is sent, at {base_url}.
func ownKey(t *testing.T, method string, header ...string) stacktest.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, world.Info().BaseURL+"/api/v1/key", nil)
	check.OK(t, err)
	stacktest.AddHeaders(req, header...)
	a, err := stacktest.Do(http.DefaultClient, req)
	check.OK(t, err)
	return a
}

// TestOwnKey: the holder of a key learns what it is good for by the key alone, and what is
// left of it as soon as the replicas have told each other.
func TestOwnKey(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	rate, burst, quota, period := 50.0, int64(100), int64(1000), "month"
	p := s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst, Quota: &quota, QuotaPeriod: &period})
	k := s.Key(p, func(r *wire.CreateKey) { r.Name, r.Apps = "Checkout team 5%", []string{"hello"} })
	s.Opens("hello", k) // one request at each replica
	for range 8 {
		s.Call("hello").Key(k).Gets(http.StatusOK)
	}
	used := int64(8 + len(world.Info().Checkers))
	var got wire.OwnKey
	begin := time.Now()
	s.Until("show what is used", func() bool {
		a := ownKey(t, http.MethodGet, "X-API-Key", k.Full)
		if a.Status == http.StatusTooManyRequests && a.Code() == "rate_limited" {
			return false // asked too often
		}
		got = wire.OwnKey{}
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Status != http.StatusOK || got.Used == nil || *got.Used > used {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("headers %v", a.Header)
		}
		return *got.Used == used
	})
	t.Logf("all replicas' requests are shown after %v", time.Since(begin).Round(time.Millisecond))
	now := time.Now().UTC()
	resets, left := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC), quota-used
	want := wire.OwnKey{
		Prefix: k.Prefix, Name: "Checkout team 5%", Environment: s.Env, Apps: []string{"hello"}, Scope: "apps", Plan: p.ID, PlanName: p.Name, Rate: rate, Burst: burst,
		Quota: &quota, QuotaPeriod: &period, Used: &used, Remaining: &left, ResetsAt: &resets,
	}
	check.Equal(t, "the key", want, got)
	s.Revoke(k)
	s.Refuses("hello", k)
	if a := ownKey(t, http.MethodGet, "X-API-Key", k.Full); a.Status != http.StatusUnauthorized || a.Code() != "invalid_key" {
		t.Errorf("revoked: %d %s", a.Status, a.Body)
	}
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		if a := ownKey(t, method, "X-API-Key", k.Full); a.Status != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %v", method, a.Status, a.Header)
		}
	}
	if !strings.Contains(ownKey(t, http.MethodGet).Body, "invalid_key") {
		t.Error("without a key it is not refused")
	}
}
