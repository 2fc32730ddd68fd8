package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
)

// FuzzReadPage: whatever the query, the page's size is one that a list can have, and
// nothing but invalid_page is answered.
func FuzzReadPage(f *testing.F) {
	for _, q := range []string{"", "page_size=7&page_token=abc", "page_size=0", "page_size=501", "page_size=+5", "page_size=1&page_size=2", "%zz", "page_size=1;x", "page_size=٣"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: query}
		p, err := ReadPage(r)
		if err != nil {
			if !problem.Is(err, problem.InvalidPage) {
				t.Errorf("%q: %v", query, err)
			}
			return
		}
		if p.Size < 1 || p.Size > MaxPageSize {
			t.Errorf("%q: size %d", query, p.Size)
		}
	})
}
