package tests

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// limitTimeout is the time that a busy machine may need to reach a limit.
const limitTimeout = 30 * time.Second

// wantDenial checks the headers that all denials share (promise G9).
func wantDenial(t *testing.T, a stacktest.Answer, retryAfter string) {
	t.Helper()
	want := map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After", "Vary": "Origin",
		"Cache-Control": "no-store", "Content-Type": "application/json", "Retry-After": retryAfter, "WWW-Authenticate": "",
	}
	if a.Status == http.StatusUnauthorized {
		want["WWW-Authenticate"] = `ApiKey realm="sluice"`
	}
	for name, value := range want {
		if got := a.Header.Get(name); got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	s.GatedApp("other")
	elsewhere := s.In("test")
	elsewhere.GatedApp("hello")
	scoped := s.AnyKey(func(r *wire.CreateKey) { r.Apps = []string{"hello"} })
	unscoped := s.AnyKey()
	foreign := elsewhere.AnyKey()

	s.Opens("hello", scoped)
	s.Opens("hello", unscoped)
	elsewhere.Opens("hello", foreign)
	s.Call("hello").Key(scoped).Gets(http.StatusOK)
	s.Call("other").Key(unscoped).Gets(http.StatusOK)
	elsewhere.Call("hello").Key(foreign).Gets(http.StatusOK)

	s.Call("other").Key(scoped).Gets(http.StatusUnauthorized, "invalid_key")
	elsewhere.Call("hello").Key(scoped).Gets(http.StatusUnauthorized, "invalid_key")
	elsewhere.Call("hello").Key(unscoped).Gets(http.StatusUnauthorized, "invalid_key")
	s.Call("hello").Key(foreign).Gets(http.StatusUnauthorized, "invalid_key")

	if _, err := s.Client.UpdateKey(t.Context(), s.Project, scoped.ID, wire.UpdateKey{Apps: wire.Some([]string{"other"})}); err != nil {
		t.Fatal(err)
	}
	s.Opens("other", scoped)
	s.Call("other").Key(scoped).Gets(http.StatusOK)
	s.Call("hello").Key(scoped).Gets(http.StatusUnauthorized, "invalid_key")
}

// TestInvalidKeysGetIdenticalResponses compares the responses to all invalid keys, except date and request ID.
func TestInvalidKeysGetIdenticalResponses(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	s.GatedApp("other")
	elsewhere := s.In("test")
	good, disabled, revoked := s.AnyKey(), s.AnyKey(), s.AnyKey()
	wrongApp := s.AnyKey(func(r *wire.CreateKey) { r.Apps = []string{"other"} })
	p := s.Plan(wire.CreatePlan{})
	soon := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano)
	expired := s.Key(p, func(r *wire.CreateKey) { r.ExpiresAt = &soon })
	wrongEnv := elsewhere.AnyKey()
	rotated := s.Rotate(s.AnyKey(), 0)
	s.Opens("hello", good)
	s.Opens("hello", rotated)
	s.Disable(disabled)
	s.Revoke(revoked)
	for _, k := range []stacktest.Key{disabled, revoked, expired} {
		s.Refuses("hello", k)
	}

	none := s.Call("hello").Gets(http.StatusUnauthorized, "invalid_key")
	if _, there := none.Header["Retry-After"]; there {
		t.Error("got a 401 with Retry-After, want none")
	}
	// This changes the secret, so the checksum no longer matches.
	mutated := good.Full[:20] + flip(good.Full[20]) + good.Full[21:]
	calls := map[string]*stacktest.Call{
		"malformed":  s.Call("hello").Header("X-API-Key", "garbage"),
		"too long":   s.Call("hello").Header("X-API-Key", strings.Repeat("k", 80<<10)),
		"empty":      s.Call("hello").Header("X-API-Key", ""),
		"mutated":    s.Call("hello").Header("X-API-Key", mutated),
		"unknown":    s.Call("hello").Header("X-API-Key", "sluice_zzzzzzzz_00000000000000000000000000000000000000"),
		"disabled":   s.Call("hello").Key(disabled),
		"revoked":    s.Call("hello").Key(revoked),
		"expired":    s.Call("hello").Key(expired),
		"wrong app":  s.Call("hello").Key(wrongApp),
		"wrong env":  s.Call("hello").Key(wrongEnv),
		"two copies": s.Call("hello").Key(good).Key(good),
	}
	ids := map[string]bool{}
	anonymous := func(a *stacktest.Answer) {
		a.Header.Del("Date")
		ids[a.Header.Get("X-Request-Id")] = true
		a.Header.Del("X-Request-Id")
	}
	anonymous(&none)
	for name, call := range calls {
		a := call.Gets(http.StatusUnauthorized)
		anonymous(&a)
		if diff := cmp.Diff(none, a); diff != "" {
			t.Errorf("%s differs from a request without a key (-without +got):\n%s", name, diff)
		}
	}
	if len(ids) != len(calls)+1 || ids[""] {
		t.Errorf("request IDs of %d denials: got %v, want all different", len(calls)+1, ids)
	}
}

func flip(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

// TestGateDenials causes the denials that a client can cause; package chaos tests
// gate_unavailable.
func TestGateDenials(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")

	wantDenial(t, s.Call("hello").Header("Origin", "https://shop.example").Gets(http.StatusUnauthorized, "invalid_key"), "")

	rate, burst := 0.05, int64(2)
	slow := s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
	s.Opens("hello", slow)
	wantDenial(t, s.Call("hello").Key(slow).Within(limitTimeout).Gets(http.StatusTooManyRequests, "rate_limited"), "1")

	quota, period := int64(3), "month"
	small := s.Key(s.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period}))
	s.Opens("hello", small)
	denied := s.Call("hello").Key(small).Within(limitTimeout).Gets(http.StatusTooManyRequests, "quota_exhausted")
	now := time.Now().UTC()
	left := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(now)
	wait, err := strconv.Atoi(denied.Header.Get("Retry-After"))
	if d := time.Duration(wait)*time.Second - left; err != nil || d < -5*time.Second || d > 5*time.Second {
		t.Errorf("Retry-After: got %q, want the %v until the end of the month", denied.Header.Get("Retry-After"), left)
	}
}

// TestMisconfigured sends requests that a correctly configured proxy never sends.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	for _, r := range stacktest.Replicas(t, world) {
		for _, address := range [][2]string{{"shop-prod", ""}, {"", "hello"}, {"UPPER", "hello"}, {"shop-prod", "a.b"}, {"shop-prod", "/hello"}} {
			a, err := r.Check(t.Context(), address[0], address[1], "")
			if err != nil || a.Status != http.StatusInternalServerError || a.Code() != "misconfigured" {
				t.Errorf("%v: got %d %s, %v, want 500 misconfigured", address, a.Status, a.Body, err)
			}
			wantDenial(t, a, "")
		}
		a, err := r.Check(t.Context(), "shop-prod", "hello", "", "X-Forwarded-Method", "")
		if err != nil || a.Code() != "misconfigured" {
			t.Errorf("without the forwarded method: got %d %s, %v, want misconfigured", a.Status, a.Body, err)
		}
	}
}
