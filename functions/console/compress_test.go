package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

// TestCompression checks that a page is compressed only if no other site can have caused the
// request, and that responses to forms are never compressed.
func TestCompression(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answer("GET /api/v1/projects/shop/environments/prod/plans", http.StatusOK, wire.List[wire.Plan]{Items: make([]wire.Plan, 20)})
	plain := o.get(plansPath)
	from := func(site string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Accept-Encoding", "gzip, br")
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
		}
	}
	for site, want := range map[string]bool{"same-origin": true, "none": true, "same-site": false, "cross-site": false, "": false} {
		w := o.get(plansPath, from(site))
		page, packed := body(t, w)
		if packed != want || page != plain.Text() {
			t.Errorf("from %q: compressed: got %t, want %t, or the page differs", site, packed, want)
		}
		if got := w.Header.Get("Vary"); got != "Accept-Encoding, Sec-Fetch-Site" {
			t.Errorf("from %q: Vary: got %q", site, got)
		}
	}
	if _, packed := body(t, o.get(plansPath, header("Sec-Fetch-Site", "same-origin"))); packed {
		t.Error("compressed without Accept-Encoding")
	}
	if _, packed := body(t, o.post(plansPath, url.Values{"name": {strings.Repeat("a", 2000)}}, from("same-origin"))); packed {
		t.Error("the response to a form is compressed")
	}
}

func body(t *testing.T, w functest.Answer) (page string, packed bool) {
	t.Helper()
	if w.Header.Get("Content-Encoding") == "" {
		return w.Text(), false
	}
	size := len(w.Body)
	r, err := gzip.NewReader(bytes.NewReader(w.Body))
	check.OK(t, err)
	b, err := io.ReadAll(r)
	check.OK(t, err)
	t.Logf("%d of %d bytes", size, len(b))
	return string(b), true
}
