package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// ownKey sends header lines to the path of GET /api/v1/key.
func ownKey(t *testing.T, method string, lines ...string) stacktest.Answer {
	t.Helper()
	head := method + " " + api.GetOwnKey.Path + " HTTP/1.1\r\nHost: " + hostOf(t, world.Info().BaseURL) + "\r\nConnection: close\r\n"
	for _, line := range lines {
		head += line + "\r\n"
	}
	all := answers(t, raw(t, atIngress(), head+"\r\n"))
	if len(all) != 1 {
		t.Fatalf("%s %.200q: got %d responses, want 1", method, lines, len(all))
	}
	return all[0]
}

func TestOwnKeyRefusals(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "`GET /api/v1/key` with unknown, disabled, malformed, duplicate or 60 KiB keys, nonces, identity and forwarding headers",
		"the gate's 401, byte for byte, without proof, limits or caching")
	s, k := gated(t)
	disabled, revoked := s.AnyKey(), s.AnyKey()
	s.Disable(disabled)
	s.Revoke(revoked)
	s.Refuses("hello", disabled)
	s.Refuses("hello", revoked)
	if a := ownKey(t, "GET", "X-API-Key: "+k.Full); a.Status != http.StatusOK || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the valid key: got %d %v", a.Status, a.Header)
	}
	none := s.Call("hello").Gets(http.StatusUnauthorized, "invalid_key")
	forget(none)
	tries := map[string][]string{
		"no key":             {},
		"empty":              {"X-API-Key:"},
		"garbage":            {"X-API-Key: garbage"},
		"60 KiB":             {"X-API-Key: " + strings.Repeat("k", 60<<10)},
		"disabled":           {"X-API-Key: " + disabled.Full},
		"revoked":            {"X-API-Key: " + revoked.Full},
		"another secret":     {"X-API-Key: " + withSum(k.Full[:16]+strings.Repeat("0", 32))},
		"another prefix":     {"X-API-Key: " + withSum(strings.Replace(k.Full[:48], k.Prefix, "zzzzzzzz", 1))},
		"twice":              {"X-API-Key: " + k.Full, "X-API-Key: " + k.Full},
		"a list":             {"X-API-Key: " + k.Full + ", " + k.Full},
		"a bearer":           {"Authorization: Bearer " + k.Full},
		"basic":              {"Authorization: ApiKey " + k.Full},
		"a cookie":           {"Cookie: X-API-Key=" + k.Full},
		"an alias":           {"X_API_Key: " + k.Full, "X.API.Key: " + k.Full},
		"an identity":        {"X-Service-Key-Prefix: " + k.Prefix, "X-Service-Key-Name: x"},
		"a nonce":            {checkers.NonceHeader + ": " + checkers.NewNonce()},
		"a preflight's":      {"Origin: https://shop.example", "Access-Control-Request-Method: GET", "X-Forwarded-Method: OPTIONS"},
		"a forwarded uri":    {"X-Forwarded-Uri: /check/" + s.Project + "-prod/hello", "X-Original-Url: /check/a/b"},
		"another host's":     {"X-Forwarded-Host: " + s.Host("hello")},
		"an admin's session": {"Authorization: Bearer " + adminToken(t)},
		"a range":            {"Range: bytes=0-3", "If-None-Match: *", "Accept-Encoding: gzip"},
	}
	for name, lines := range tries {
		a := ownKey(t, "GET", lines...)
		forget(a)
		// required on a connection that closes
		a.Header.Del("Connection")
		if diff := cmp.Diff(none, a); diff != "" {
			t.Errorf("%s differs from no key at a gate (-gate +this):\n%s", name, diff)
		}
	}
	row.Measured(fmt.Sprintf("%d", len(tries)))
}

func TestOwnKeyFlood(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "200 calls of `GET /api/v1/key` with one key; an exhausted quota; cross-origin pages",
		"429 `rate_limited` by a separate limit; the key's rate and quota are unaffected; pages cannot read responses")
	s, k := gated(t)
	quota, period := int64(5), "month"
	p := s.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period})
	flooded, other := s.Key(p), s.Key(p)
	s.Opens("hello", flooded)
	s.Opens("hello", other)
	shown, limited := 0, 0
	for range 200 {
		switch a := ownKey(t, "GET", "X-API-Key: "+flooded.Full); a.Status {
		case http.StatusOK:
			shown++
		case http.StatusTooManyRequests:
			limited++
			if a.Code() != "rate_limited" || a.Header.Get("Retry-After") != "1" || a.Header.Get("RateLimit-Policy") != `"key";q=5;w=5` {
				t.Fatalf("%v %s", a.Header, a.Body)
			}
		default:
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	if shown < 5 || limited < 100 {
		t.Errorf("got %d shown and %d limited, want at least 5 and 100", shown, limited)
	}
	if a := ownKey(t, "GET", "X-API-Key: "+other.Full); a.Status != http.StatusOK {
		t.Errorf("another key: got %d %s, want %d", a.Status, a.Body, http.StatusOK)
	}
	for range 5 - 2 { // Opens used two requests
		s.Call("hello").Key(flooded).Gets(http.StatusOK)
	}
	s.Call("hello").Key(flooded).Within(patience).Gets(http.StatusTooManyRequests, "quota_exhausted")
	stacktest.Until(t, "show a key whose quota is used up", func() bool { return ownKey(t, "GET", "X-API-Key: "+flooded.Full).Status == http.StatusOK })
	origin := "Origin: https://evil.example"
	asked := ownKey(t, "OPTIONS", origin, "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: x-api-key")
	simple := ownKey(t, "GET", origin, "X-API-Key: "+k.Full)
	if asked.Status != http.StatusMethodNotAllowed || simple.Status != http.StatusOK {
		t.Errorf("got preflight %d and request %d, want %d and %d", asked.Status, simple.Status, http.StatusMethodNotAllowed, http.StatusOK)
	}
	for _, a := range []stacktest.Answer{asked, simple} {
		for name := range a.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("a page can read the response with status %d: %s", a.Status, name)
			}
		}
	}
	t.Logf("%d shown, %d rejected", shown, limited)
	row.Measured(fmt.Sprintf("200; %d shown, %d rejected", shown, limited))
}
