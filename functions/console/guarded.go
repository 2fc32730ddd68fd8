package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/shared/httpapi"
)

// policy is the content security policy of every answer: what is ours, and nothing
// inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxForm bounds the body of a form, in bytes: the API takes 64 KiB of JSON.
const maxForm = 64 << 10

// guard puts around all pages what must hold for everything: the headers of every
// answer, and no change from another origin.
type guard struct {
	*httpapi.Mux // the pages, and what is measured of them

	s *Service

	// Browsers say where a request comes from (Sec-Fetch-Site, Origin); forms carry the
	// CSRF value besides.
	origin *http.CrossOriginProtection
}

func (s *Service) guarded(m *httpapi.Mux) *guard {
	return &guard{Mux: m, s: s, origin: http.NewCrossOriginProtection()}
}

// ServeHTTP implements [http.Handler].
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	if g.origin.Check(r) != nil {
		g.s.refuse(w, r, troubled{
			Status: http.StatusForbidden, Title: "That form is not from here",
			Text: "The request came from another site, so nothing was done.",
		})
		return
	}
	if r.Body != nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	if clean, ok := strings.CutSuffix(r.URL.Path, "/"); ok && r.Method == http.MethodGet && strings.HasPrefix(clean, home) && own(clean) != "" {
		http.Redirect(w, r, (&url.URL{Path: clean}).String(), http.StatusPermanentRedirect)
		return
	}
	g.Mux.ServeHTTP(w, r)
}
