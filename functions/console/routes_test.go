package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

func TestForeignForms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		fields url.Values
		change func(*http.Request)
		status int
	}{
		{"valid", nil, func(*http.Request) {}, 303},
		{"no value", url.Values{"csrf": {""}}, func(*http.Request) {}, 403},
		{"wrong value", url.Values{"csrf": {"another"}}, func(*http.Request) {}, 403},
		{"from another site", nil, header("Sec-Fetch-Site", "cross-site"), 403},
		{"from a sibling host", nil, header("Sec-Fetch-Site", "same-site"), 403},
		{"from another origin", nil, header("Origin", "https://evil.example"), 403},
		{"signed out", nil, signedOut, 303},
		{"valid, with the cookie twice", nil, signedIn, 303},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.answer("POST /api/v1/projects/shop/environments", 201, map[string]string{"name": "prod"})
			fields := tt.fields
			if fields == nil {
				fields = url.Values{}
			}
			fields.Set("name", "prod")
			w := o.post("/console/projects/shop/environments", fields, tt.change)
			w.Shows(tt.status)
			if done := len(o.changes()) == 1; done != strings.HasPrefix(tt.name, "valid") {
				t.Errorf("got the changes %q", o.changes())
			}
		})
	}
}

func TestEveryChangeIsGuarded(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, path := range []string{
		"/console/sign-out", "/console/account", "/console/users", "/console/users/ada/password", "/console/users/ada/deactivate", "/console/users/ada/remove", "/console/account/end-sessions", "/console/hosts/hello.example.com/release", "/console/projects",
		"/console/projects/shop/delete", "/console/projects/shop/members", "/console/projects/shop/members/ada/remove",
		"/console/projects/shop/tokens", "/console/projects/shop/tokens/token-000000000001/revoke",
		"/console/projects/shop/environments", "/console/projects/shop/environments/prod/delete",
		"/console/projects/shop/api-keys/report-leak", "/console/projects/shop/settings",
		"/console/projects/shop/api-keys/search", "/console/projects/shop/environments/prod/api-keys/search",
		"/console/projects/shop/environments/prod/api-keys/bulk", "/console/projects/shop/environments/prod/api-keys/bulk/apply",
		"/console/projects/shop/environments/prod/plans/plan-starter/edit", "/console/projects/shop/environments/prod/plans/plan-starter/edit/preview",
		"/console/projects/shop/environments/prod/apps", "/console/projects/shop/environments/prod/apps/hello/delete",
		"/console/projects/shop/environments/prod/apps/hello/gate", "/console/projects/shop/environments/prod/apps/hello/settings/git",
		"/console/projects/shop/environments/prod/apps/hello/settings/git/remove",
		"/console/projects/shop/environments/prod/apps/hello/settings/preflight",
		"/console/projects/shop/environments/prod/apps/hello/settings/address",
		"/console/projects/shop/environments/prod/apps/hello/settings/webhook",
		"/console/projects/shop/environments/prod/apps/hello/settings/webhook/token",
		"/console/projects/shop/environments/prod/apps/hello/settings/webhook/regenerate",
		"/console/projects/shop/environments/prod/apps/hello/settings/webhook/disable",
		"/console/projects/shop/environments/prod/apps/hello/settings/webhook/trusts",
		"/console/projects/shop/environments/prod/apps/hello/settings/webhook/trusts/trust-aaaaaaaaaa/remove",
		"/console/projects/shop/environments/prod/apps/hello/deliveries/test",
		"/console/projects/shop/environments/prod/apps/hello/deploys", "/console/projects/shop/environments/prod/apps/hello/deploys/1/rollback",
		"/console/projects/shop/environments/prod/apps/hello/promote/staging",
	} {
		o.post(path, url.Values{"csrf": {"another"}}).Shows(http.StatusForbidden, "out of date")
	}
	if got := o.changes(); len(got) != 0 {
		t.Errorf("got the changes %q, want none", got)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answer("GET /api/v1/projects", 200, map[string]any{"items": []any{}})
	for _, path := range []string{"/console/projects", "/console/none", "/console/sign-in", "/console"} {
		w := o.get(path)
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "Cache-Control": "no-store",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
		} {
			if got := w.Header.Get(name); got != want {
				t.Errorf("%s: %s: got %q, want %q", path, name, got, want)
			}
		}
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, target := range []string{"/", "/?next=//evil.example"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := o.send(httptest.NewRequest(method, target, nil))
			if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "/console" {
				t.Errorf("%s %s: got %d to %q", method, target, w.Status, w.Header.Get("Location"))
			}
		}
	}
	if w := o.send(httptest.NewRequest(http.MethodPost, "/", nil)); w.Status != http.StatusMethodNotAllowed || w.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST /: got %d, Allow %q", w.Status, w.Header.Get("Allow"))
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	page := o.get("/console/sign-in").Text()
	found := regexp.MustCompile(`/console/assets/[a-z0-9.]+`).FindAllString(page, -1)
	if len(found) < 4 {
		t.Fatalf("got the assets %q, want at least 4", found)
	}
	for _, path := range found {
		plain := o.send(httptest.NewRequest(http.MethodGet, path, nil))
		packed := o.get(path, header("Accept-Encoding", "br, gzip"))
		if plain.Status != 200 || plain.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s: got %d %v", path, plain.Status, plain.Header)
		}
		if packed.Header.Get("Content-Encoding") != "gzip" || len(packed.Body) >= len(plain.Body) {
			t.Errorf("%s is not compressed: %d of %d bytes", path, len(packed.Body), len(plain.Body))
		}
		if kind := plain.Header.Get("Content-Type"); kind == "" || strings.HasPrefix(kind, "application/octet") {
			t.Errorf("%s: Content-Type: got %q", path, kind)
		}
	}
	o.get("/console/assets/style.css").Shows(http.StatusNotFound)
}
