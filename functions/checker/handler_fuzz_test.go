package checker

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
)

func FuzzCheck(f *testing.F) {
	f.Add("shop-prod/hello", "GET", "", "garbage", false)
	f.Add("shop-prod/hello", "OPTIONS", "GET", "", false)
	f.Add("shop-prod/hello/", "GET", "", "$", false)
	f.Add("../check/shop-prod/hello", "GET", "", "$", true)
	f.Add("shop-prod//hello", "", "", "$", false)
	f.Add("Shop-Prod/hello", "GET", "", "$,$", false)
	f.Add("shop-prod/hello", "CONNECT", "GET", "$", false)
	f.Add("shop-prod/hello", "options", "", " $", false)
	f.Fuzz(func(t *testing.T, address, method, asks, key string, twice bool) {
		synctest.Test(t, func(t *testing.T) {
			store := newFakeStore()
			full := issue(t, store, nil)
			r := newReplica(t, store)
			synctest.Wait()
			key := strings.ReplaceAll(key, "$", full)
			q := httptest.NewRequest(http.MethodGet, "/", nil)
			q.URL = &url.URL{Path: "/check/" + address}
			q.Header[methodHeader] = []string{method}
			q.Header[keyHeader] = []string{key}
			if twice {
				q.Header[keyHeader] = []string{key, key}
			}
			if asks != "" {
				q.Header["Access-Control-Request-Method"] = []string{asks}
			}
			w := httptest.NewRecorder()
			r.ServeHTTP(w, q)
			opens := key == full && !twice && strings.HasPrefix(address, "shop-prod/") && method != "" && method != http.MethodConnect
			preflight := method == http.MethodOptions && asks != ""
			switch {
			case w.Code == http.StatusOK && !opens && !preflight:
				t.Errorf("%q with method %q and key %q is allowed", address, method, key)
			case w.Code == http.StatusOK && preflight && len(w.Header()) != 0:
				t.Errorf("headers of a preflight: got %v, want none", w.Header())
			case w.Code != http.StatusOK && w.Code != http.StatusUnauthorized && w.Code != http.StatusInternalServerError:
				t.Errorf("%q: unexpected status %d: %s", address, w.Code, w.Body)
			}
		})
	})
}
