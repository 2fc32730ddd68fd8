package checker

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// askAt asks at an address with a query, or with more behind it.
func (r *replica) askAt(address, key string) *http.Response {
	return serve(r, http.MethodGet, address, http.Header{"X-Forwarded-Method": {"GET"}, "X-Api-Key": {key}})
}

// TestDenialInHeader: a proxy that asks for it gets a denial's body in a header too;
// all else stays as it is.
func TestDenialInHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		const address = "/check/shop-prod/hello"
		plain := r.askAt(address, "nonsense")
		if got := plain.Header.Get(bodyHeader); got != "" {
			t.Errorf("unasked: %s", got)
		}
		for _, query := range []string{"?denial=body", "?denial=header&x", "?x=denial=header"} {
			if got := r.askAt(address+query, "nonsense").Header.Get(bodyHeader); got != "" {
				t.Errorf("%s: %s", query, got)
			}
		}
		asked := r.askAt(address+"?denial=header", "nonsense")
		body := `{"code":"invalid_key","message":"A valid API key for this app is required in the X-API-Key header."}`
		if got := asked.Header.Get(bodyHeader); got != body {
			t.Errorf("header %q, want %q", got, body)
		}
		wantCode(t, asked, http.StatusUnauthorized, "invalid_key")
		allowed := r.askAt(address+"?denial=header", full)
		if got := allowed.Header.Get(prefixHeader); allowed.StatusCode != http.StatusOK || got != full[7:15] {
			t.Errorf("allowed: %d, prefix %q", allowed.StatusCode, got)
		}
	})
}

// TestPathAfterAddress: what a proxy appends of the client's path changes nothing of
// which app is asked about.
func TestPathAfterAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		for _, path := range []string{"/", "/x", "//", "/../other", "/../../other-prod/app", "/%2e%2e/%2fother", "/check/other-prod/app", "/?denial=header"} {
			time.Sleep(time.Second) // for the key's rate
			if res := r.askAt("/check/shop-prod/hello"+path, full); res.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", path, res.StatusCode)
			}
			if res := r.askAt("/check/other-prod/hello"+path, full); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s behind an app of another environment: %d", path, res.StatusCode)
			}
		}
		for _, address := range []string{"/check/shop-prod//hello", "/check/shop-prod/", "/check//hello/shop-prod/hello", "/check/shop-prod/..", "/check/shop-prod/hello*"} {
			if res := r.askAt(address, full); res.StatusCode != http.StatusInternalServerError {
				t.Errorf("%s: %d", address, res.StatusCode)
			}
		}
	})
}
