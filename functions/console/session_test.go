package console

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestLocalPath(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"a page", "/console/projects/shop?page=a", "/console/projects/shop?page=a"},
		{"home", "/console", "/console"},
		{"empty", "", ""},
		{"another site", "https://evil.example/console", ""},
		{"another site without a scheme", "//evil.example/console", ""},
		{"backslashes", `/\evil.example`, ""},
		{"backslashes below", `/console/\evil.example`, ""},
		{"the API", "/api/v1/projects", ""},
		{"same prefix", "/console.evil", ""},
		{"parent path", "/console/../api", ""},
		{"two slashes", "/console//evil.example", ""},
		{"a script", "javascript:alert(1)", ""},
		{"a line break", "/console\r\nSet-Cookie: a=b", ""},
		{"a fragment", "/console/x#y", "/console/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := localPath(tt.in); got != tt.want {
				t.Errorf("localPath(%q) got %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func (o *office) signInForm(next string) (*http.Cookie, string) {
	o.t.Helper()
	w := o.send(httptest.NewRequest(http.MethodGet, "/console/sign-in?next="+url.QueryEscape(next), nil))
	for _, c := range (&http.Response{Header: w.Header}).Cookies() {
		if c.Name == signInCookie {
			return c, c.Value
		}
	}
	o.t.Fatalf("the form sets no cookie: %v", w.Header)
	return nil, ""
}

func (o *office) signIn(cookie *http.Cookie, fields url.Values, change ...func(*http.Request)) functest.Answer {
	r := httptest.NewRequest(http.MethodPost, "/console/sign-in", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(cookie)
	return o.send(r, change...)
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answer("POST /api/v1/session", 200, wire.OpenedSession{
		Session: wire.Session{ExpiresAt: time.Now().Add(time.Hour), User: wire.Caller{Username: "ada"}}, Token: "fresh",
	})
	cookie, value := o.signInForm("/console/projects/shop")
	fields := url.Values{"csrf": {value}, "username": {"ada"}, "password": {"pw"}, "next": {"/console/projects/shop"}}

	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	w := o.signIn(cookie, fields, func(r *http.Request) {
		*r = *r.WithContext(reqctx.Begin(r.Context(), reqctx.Request{ID: "r1", Address: "192.0.2.7", Parent: parent}))
	})
	if got := w.Header.Get("Location"); w.Status != 303 || got != "/console/projects/shop" {
		t.Errorf("got %d to %q", w.Status, got)
	}
	session := ""
	for _, c := range (&http.Response{Header: w.Header}).Cookies() {
		if c.Name == identity.CookieName {
			session = c.Value
		}
	}
	if session != "fresh" {
		t.Errorf("session cookie: got %q, want fresh", session)
	}
	sent := o.headers["POST /api/v1/session"]
	if got := vouchedAddress(sent) + " " + sent.Get(reqctx.Header) + " " + sent.Get(reqctx.ParentHeader); got != "192.0.2.7 r1 "+parent {
		t.Errorf("headers of the sign-in: got %q", got)
	}

	fields.Set("next", "https://evil.example/")
	if got := o.signIn(cookie, fields).Header.Get("Location"); got != "/console/projects" {
		t.Errorf("redirect: got %q", got)
	}
	if strings.Contains(o.log.String(), "fresh") || strings.Contains(o.log.String(), "pw") {
		t.Errorf("the log contains a secret: %s", o.log.String())
	}
}

func TestRejectedSignIn(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.refuse("POST /api/v1/session", 401, "invalid_credentials")
	cookie, value := o.signInForm("")
	fields := url.Values{"csrf": {value}, "username": {"ada"}, "password": {"not it"}}
	w := o.signIn(cookie, fields)
	if body := w.Text(); w.Status != 401 || !strings.Contains(body, "The API says invalid_credentials.") ||
		!strings.Contains(body, `value="ada"`) || strings.Contains(body, "not it") {
		t.Errorf("got %d %s", w.Status, body)
	}
	fields.Set("csrf", "another")
	if w := o.signIn(cookie, fields); w.Status != 403 || len(o.changes()) != 1 {
		t.Errorf("wrong CSRF value: got %d, calls %q", w.Status, o.changes())
	}
	delete(o.answers, "POST /api/v1/session")
	o.answer("POST /api/v1/session", 503, map[string]string{})
	cookie, value = o.signInForm("")
	if w := o.signIn(cookie, url.Values{"csrf": {value}}); w.Status != 502 || !strings.Contains(w.Text(), "management API is unavailable") {
		t.Errorf("unavailable API: got %d", w.Status)
	}
}

// TestSeveralCookies checks that invalid cookies are ignored, and that valid cookies of two users
// are all rejected.
func TestSeveralCookies(t *testing.T) {
	t.Parallel()
	owners := map[string]string{"sluice_st_x": "token:nightly", "a1": "ada", "a2": "ada", "b1": "bob"}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		owner := owners[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		if owner == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(wire.Session{User: wire.Caller{Username: owner}})
	}))
	t.Cleanup(api.Close)
	s, err := New(Config{APIURL: api.URL, Timeout: 5 * time.Second}, slog.New(slog.DiscardHandler))
	check.OK(t, err)
	for cookies, want := range map[string]client.Token{
		"": "", "a1": "a1", "sluice_st_x": "", "sluice_st_x a1": "a1", "a1 a2": "a1", "dead a2": "a2", "a1 dead": "a1", "dead gone": "", "a1 b1": "", "b1 a1": "", "dead a1 b1": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/console/projects", nil)
		for c := range strings.FieldsSeq(cookies) {
			r.AddCookie(&http.Cookie{Name: identity.CookieName, Value: c})
		}
		if got, ok := s.sessionToken(r); got != want || ok != (want != "") {
			t.Errorf("cookies %q: got %q, %t, want %q", cookies, string(got), ok, string(want))
		}
	}
}

func TestWithoutSession(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	tests := []struct {
		name, path string
		change     func(*http.Request)
		want       string
	}{
		{"a page", "/console/projects/shop?page=2", signedOut, "/console/sign-in?next=%2Fconsole%2Fprojects%2Fshop%3Fpage%3D2"},
		{"the project list", "/console/projects", signedOut, "/console/sign-in"},
		{"a cookie without its prefix", "/console/projects", header("Cookie", "sluice_session="+testToken), "/console/sign-in"},
	}
	for _, tt := range tests {
		if got := o.get(tt.path, tt.change).Header.Get("Location"); got != tt.want {
			t.Errorf("%s: redirect: got %q, want %q", tt.name, got, tt.want)
		}
	}
	o.refuse("GET /api/v1/session", 401, "unauthenticated")
	w := o.get("/console/projects/shop")
	if got := w.Header.Get("Location"); got != "/console/sign-in?next=%2Fconsole%2Fprojects%2Fshop" {
		t.Errorf("ended session: redirect: got %q", got)
	}
	if got := strings.Join(w.Header.Values("Set-Cookie"), "\n"); !strings.Contains(got, "__Host-sluice_session=; Path=/; Max-Age=0") {
		t.Errorf("the invalid cookie remains: %s", got)
	}
	part := o.get("/console/projects/shop/environments/prod/apps/hello/state", header("HX-Request", "true"))
	if part.Header.Get("HX-Refresh") != "true" || part.Header.Get("Location") != "" {
		t.Errorf("part of a page: got %d %v", part.Status, part.Header)
	}
}
