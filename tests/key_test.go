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

func ownKey(t *testing.T, method string, header ...string) stacktest.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, world.Info().BaseURL+"/api/v1/key", nil)
	check.OK(t, err)
	stacktest.AddHeaders(req, header...)
	a, err := stacktest.Do(http.DefaultClient, req)
	check.OK(t, err)
	return a
}

// TestOwnKey reads the limits of a key, and its usage at all replicas, with the key.
func TestOwnKey(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	rate, burst, quota, period := 50.0, int64(100), int64(1000), "month"
	p := s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst, Quota: &quota, QuotaPeriod: &period})
	k := s.Key(p, func(r *wire.CreateKey) { r.Name, r.Apps = "Checkout team 5%", []string{"hello"} })
	s.Opens("hello", k) // sends one request to each replica
	for range 8 {
		s.Call("hello").Key(k).Gets(http.StatusOK)
	}
	used := int64(8 + len(world.Info().Checkers))
	var got wire.OwnKey
	begin := time.Now()
	s.Until("show the usage", func() bool {
		a := ownKey(t, http.MethodGet, "X-API-Key", k.Full)
		if a.Status == http.StatusTooManyRequests && a.Code() == "rate_limited" {
			return false // too many requests
		}
		got = wire.OwnKey{}
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Status != http.StatusOK || got.Used == nil || *got.Used > used {
			t.Fatalf("got %d %s, want 200 with at most %d used", a.Status, a.Body, used)
		}
		if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("got the headers %v, want Cache-Control no-store and no CORS header", a.Header)
		}
		return *got.Used == used
	})
	t.Logf("usage of all replicas shown after %v", time.Since(begin).Round(time.Millisecond))
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
		t.Errorf("revoked: got %d %s, want 401 invalid_key", a.Status, a.Body)
	}
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		if a := ownKey(t, method, "X-API-Key", k.Full); a.Status != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got %d %v, want 405 with Allow: GET, HEAD", method, a.Status, a.Header)
		}
	}
	if !strings.Contains(ownKey(t, http.MethodGet).Body, "invalid_key") {
		t.Error("without a key: got a response without the code invalid_key")
	}
}
