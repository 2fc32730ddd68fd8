package checker

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func (r *replica) sendCheckAt(address, key string) *http.Response {
	return serve(r, http.MethodGet, address, http.Header{"X-Forwarded-Method": {"GET"}, "X-Api-Key": {key}})
}

func TestDenialInHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		const address = "/check/shop-prod/hello"
		plain := r.sendCheckAt(address, "nonsense")
		if got := plain.Header.Get(bodyHeader); got != "" {
			t.Errorf("body header without a query: got %s, want none", got)
		}
		for _, query := range []string{"?denial=body", "?denial=header&x", "?x=denial=header"} {
			if got := r.sendCheckAt(address+query, "nonsense").Header.Get(bodyHeader); got != "" {
				t.Errorf("body header with %s: got %s, want none", query, got)
			}
		}
		asked := r.sendCheckAt(address+"?denial=header", "nonsense")
		body := `{"code":"invalid_key","message":"A valid API key for this app is required in the X-API-Key header."}`
		if got := asked.Header.Get(bodyHeader); got != body {
			t.Errorf("body header: got %q, want %q", got, body)
		}
		wantCode(t, asked, http.StatusUnauthorized, "invalid_key")
		allowed := r.sendCheckAt(address+"?denial=header", full)
		if got := allowed.Header.Get(prefixHeader); allowed.StatusCode != http.StatusOK || got != full[7:15] {
			t.Errorf("allowed request: got %d, prefix %q", allowed.StatusCode, got)
		}
	})
}

func TestPathAfterAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		for _, path := range []string{"/", "/x", "//", "/../other", "/../../other-prod/app", "/%2e%2e/%2fother", "/check/other-prod/app", "/?denial=header"} {
			time.Sleep(time.Second) // for the key's rate
			if res := r.sendCheckAt("/check/shop-prod/hello"+path, full); res.StatusCode != http.StatusOK {
				t.Errorf("%s: got %d, want 200", path, res.StatusCode)
			}
			if res := r.sendCheckAt("/check/other-prod/hello"+path, full); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s after an app of another environment: got %d, want 401", path, res.StatusCode)
			}
		}
		for _, address := range []string{"/check/shop-prod//hello", "/check/shop-prod/", "/check//hello/shop-prod/hello", "/check/shop-prod/..", "/check/shop-prod/hello*"} {
			if res := r.sendCheckAt(address, full); res.StatusCode != http.StatusInternalServerError {
				t.Errorf("%s: got %d, want 500", address, res.StatusCode)
			}
		}
	})
}
