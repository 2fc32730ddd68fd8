package console

import (
	"net/http"
	"net/url"
	"testing"
)

// TestIssuedBefore checks that a repeated form redirects to its key only if the cookie belongs to
// the same form.
func TestIssuedBefore(t *testing.T) {
	t.Parallel()
	const (
		once  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		keys  = "/console/projects/shop/environments/prod/api-keys"
		other = "ZYXWVUTSRQPONMLKJIHGFEDCBA"
	)
	tests := []struct{ name, cookie, to string }{
		{"same form", once + ".key-ab12cd34", keys + "/key-ab12cd34"},
		{"not a path", once + "./../../users", keys + "/%2F..%2F..%2Fusers"},
		{"another form", other + ".key-ab12cd34", keys},
		{"no cookie", "", keys},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.refuse("POST /api/v1/projects/shop/environments/prod/api-keys", 409, "already_issued")
			w := o.post(keys, url.Values{"once": {once}, "plan": {"plan-gold"}, "expires_at": {""}}, func(r *http.Request) {
				r.AddCookie(&http.Cookie{Name: issuedCookie, Value: tt.cookie})
			})
			if got := w.Header.Get("Location"); w.Status != http.StatusSeeOther || got != tt.to {
				t.Errorf("got %d to %s, want %s", w.Status, got, tt.to)
			}
		})
	}
}
