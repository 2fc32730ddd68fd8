package tests

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// soon is how long a busy machine may take until a limit is reached.
const soon = 30 * time.Second

// wantDenial checks what all denials share (specification sections 2.4 and 4.1).
func wantDenial(t *testing.T, a stacktest.Answer, retryAfter string) {
	t.Helper()
	want := map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After", "Vary": "Origin",
		"Cache-Control": "no-store", "Content-Type": "application/json", "Retry-After": retryAfter,
	}
	for name, value := range want {
		if got := a.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

// TestGateDenials checks the rows of specification section 7 that a client can
// bring about through the ingress; gate_unavailable is in package chaos.
func TestGateDenials(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")

	wantDenial(t, s.Call("hello").Header("Origin", "https://shop.example").Gets(http.StatusUnauthorized, "invalid_key"), "")

	rate, burst := 0.05, int64(2)
	slow := s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
	s.Opens("hello", slow)
	wantDenial(t, s.Call("hello").Key(slow).Within(soon).Gets(http.StatusTooManyRequests, "rate_limited"), "1")

	quota, period := int64(3), "month"
	small := s.Key(s.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period}))
	s.Opens("hello", small)
	denied := s.Call("hello").Key(small).Within(soon).Gets(http.StatusTooManyRequests, "quota_exhausted")
	now := time.Now().UTC()
	left := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(now)
	wait, err := strconv.Atoi(denied.Header.Get("Retry-After"))
	if d := time.Duration(wait)*time.Second - left; err != nil || d < -5*time.Second || d > 5*time.Second {
		t.Errorf("Retry-After %q, want the %v that are left of the month", denied.Header.Get("Retry-After"), left)
	}
}

// TestMisconfigured asks the replicas what no proxy that is set up right would.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	for _, r := range stacktest.Replicas(t, world) {
		for _, address := range [][2]string{{"shop-prod", ""}, {"", "hello"}, {"UPPER", "hello"}, {"shop-prod", "a.b"}, {"shop-prod", "/hello"}} {
			a, err := r.Check(t.Context(), address[0], address[1], "")
			if err != nil || a.Status != http.StatusInternalServerError || a.Code() != "misconfigured" {
				t.Errorf("%v: %d %s %v", address, a.Status, a.Body, err)
			}
			wantDenial(t, a, "")
		}
		a, err := r.Check(t.Context(), "shop-prod", "hello", "", "X-Forwarded-Method", "")
		if err != nil || a.Code() != "misconfigured" {
			t.Errorf("without the forwarded method: %d %s %v", a.Status, a.Body, err)
		}
	}
}
