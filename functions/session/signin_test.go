package session

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/wire"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a := d.trySignIn("root", adminPassword)
	if a.status != http.StatusOK {
		t.Fatalf("sign in: %d %s", a.status, a.body)
	}
	s := read[wire.OpenedSession](t, a)
	if diff := cmp.Diff(wire.Caller{Username: "root", Admin: true}, s.User); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if left := s.ExpiresAt.Sub(d.service.now()); left < identity.SessionTTL-time.Minute || left > identity.SessionTTL {
		t.Errorf("the session ends in %s, want 12h", left)
	}
	cookie := a.header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-sluice_session="+s.Token+"; ") ||
		!strings.Contains(cookie, "; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("the cookie is %q", cookie)
	}
	for name, c := range map[string]call{"bearer": {token: s.Token}, "cookie": {cookie: s.Token}} {
		c.method, c.path = "GET", "/api/v1/session"
		a := d.do(c)
		want := s.Session
		if diff := cmp.Diff(want, read[wire.Session](t, a)); diff != "" || a.status != http.StatusOK {
			t.Errorf("who am I by %s: %d (-want +got):\n%s", name, a.status, diff)
		}
		if strings.Contains(a.body, s.Token) {
			t.Errorf("by %s the token can be read by scripts", name)
		}
	}
}

func TestSignInRefuses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tests := []struct {
		name, body, contentType string
		status                  int
		code                    string
	}{
		{"a wrong password", credentials("root", adminPassword+" "), "", 401, "invalid_credentials"},
		{"an unknown user", credentials("nobody", adminPassword), "", 401, "invalid_credentials"},
		{"an empty password", credentials("root", ""), "", 401, "invalid_credentials"},
		{"an empty name", credentials("", adminPassword), "", 401, "invalid_credentials"},
		{"another case", credentials("Root", adminPassword), "", 401, "invalid_credentials"},
		{"a name that is a path", credentials("../plans/x", adminPassword), "", 401, "invalid_credentials"},
		{"a name with a NUL", credentials("root\x00", adminPassword), "", 401, "invalid_credentials"},
		{"a long name", credentials(strings.Repeat("a", 10_000), adminPassword), "", 401, "invalid_credentials"},
		{"a long password", credentials("root", strings.Repeat("a", 50_000)), "", 401, "invalid_credentials"},
		{"no name", `{"password":"x"}`, "", 422, "missing_field"},
		{"no password", `{"username":"root"}`, "", 422, "missing_field"},
		{"null", `{"username":null,"password":null}`, "", 422, "missing_field"},
		{"nothing in it", `{}`, "", 422, "missing_field"},
		{"half of it", `{"username":"root"`, "", 400, "malformed_json"},
		{"no body", "", "", 415, "unsupported_media_type"},
		{"a list", `[]`, "", 400, "wrong_type"},
		{"a number for a name", `{"username":1,"password":"x"}`, "", 400, "wrong_type"},
		{"an unknown field", `{"username":"root","password":"x","otp":"1"}`, "", 400, "unknown_field"},
		{"a field twice", `{"username":"root","Username":"ada","password":"x"}`, "", 400, "malformed_json"},
		{"more after it", `{"username":"root","password":"x"}{}`, "", 400, "malformed_json"},
		{"a form", "username=root&password=x", "application/x-www-form-urlencoded", 415, "unsupported_media_type"},
		{"text, as a form can send it", credentials("root", adminPassword), "text/plain", 415, "unsupported_media_type"},
		{"too large", credentials("root", strings.Repeat("a", 70_000)), "", 413, "body_too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			own := do(d.replica(d.cfg).Handler(), call{method: "POST", path: "/api/v1/session", body: tt.body, contentType: tt.contentType})
			own.want(t, tt.status, tt.code)
			if c := own.header.Get("Set-Cookie"); c != "" {
				t.Errorf("it came with a cookie: %q", c)
			}
		})
	}
}

func TestUnknownUserAndWrongPasswordLookAlike(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	wrong, unknown := d.trySignIn("root", "wrong password"), d.trySignIn("nobody", "wrong password")
	wrong.header.Del("X-Request-Id")
	unknown.header.Del("X-Request-Id")
	if diff := cmp.Diff(wrong.header, unknown.header); diff != "" || wrong.body != unknown.body || wrong.status != unknown.status {
		t.Errorf("%d %q and %d %q; headers:\n%s", wrong.status, wrong.body, unknown.status, unknown.body, diff)
	}
}

func TestSignOutIsAtOnceAndEverywhere(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	other := d.replica(d.cfg).Handler()
	s, stays := d.signIn("root", adminPassword), d.signIn("root", adminPassword)

	d.do(call{method: "DELETE", path: "/api/v1/session", cookie: s.Token}).want(t, 403, "csrf_required")
	d.do(call{method: "DELETE", path: "/api/v1/session", cookie: s.Token, csrf: stays.CSRFToken}).want(t, 403, "csrf_required")
	if a := do(other, call{method: "GET", path: "/api/v1/session", token: s.Token}); a.status != http.StatusOK {
		t.Fatalf("a refused sign-out signed out: %d %s", a.status, a.body)
	}

	a := d.do(call{method: "DELETE", path: "/api/v1/session", cookie: s.Token, csrf: s.CSRFToken})
	if a.status != http.StatusNoContent || !strings.HasPrefix(a.header.Get("Set-Cookie"), "__Host-sluice_session=; Path=/; Max-Age=0") {
		t.Fatalf("sign out: %d %s, cookie %q", a.status, a.body, a.header.Get("Set-Cookie"))
	}
	for name, h := range map[string]http.Handler{"here": d.handler, "on another replica": other} {
		do(h, call{method: "GET", path: "/api/v1/session", token: s.Token}).want(t, 401, "unauthenticated")
		do(h, call{method: "GET", path: "/api/v1/session", cookie: s.Token}).want(t, 401, "unauthenticated")
		do(h, call{method: "DELETE", path: "/api/v1/session", token: s.Token}).want(t, 401, "unauthenticated")
		if a := do(h, call{method: "GET", path: "/api/v1/session", token: stays.Token}); a.status != http.StatusOK {
			t.Errorf("%s the other session ended too: %d", name, a.status)
		}
	}
}

func TestSessionNeedsOne(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	for _, c := range []call{
		{method: "GET", path: "/api/v1/session"},
		{method: "DELETE", path: "/api/v1/session"},
		{method: "GET", path: "/api/v1/users"},
		{method: "POST", path: "/api/v1/users", body: credentials("ada", adaPassword)},
		{method: "PUT", path: "/api/v1/users/root/password", body: `{"password":"another password"}`},
		{method: "GET", path: "/api/v1/session", token: "not-a-token"},
	} {
		d.do(c).want(t, 401, "unauthenticated")
	}
	d.do(call{method: "PATCH", path: "/api/v1/session"}).want(t, 405, "method_not_allowed")
	d.do(call{method: "GET", path: "/api/v1/sessions"}).want(t, 404, "not_found")
	if diff := cmp.Diff([]string{"root"}, d.usernames()); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
}

// TestServiceTokenIsNobody: a service token is told what it is, and has no session to
// end, no password to set and no users to see; by cookie it is nothing.
func TestServiceTokenIsNobody(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	p := app.Project{Name: "shop", Members: map[string]app.Role{"root": app.Owner}}
	if err := d.store.CreateProject(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	token, full, err := servicetoken.New(apikey.Random(), servicetoken.Token{
		Project: "shop", Name: "nightly", Role: app.Owner, ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
	})
	if err == nil {
		err = d.store.CreateToken(t.Context(), token)
	}
	if err != nil {
		t.Fatal(err)
	}
	who := read[wire.Session](t, d.do(call{method: "GET", path: "/api/v1/session", token: string(full)}))
	want := wire.Session{
		ExpiresAt: token.ExpiresAt, User: wire.Caller{Username: "token:nightly"},
		ServiceToken: &wire.SessionToken{ID: string(token.ID), Name: "nightly", Project: "shop", Role: "owner"},
	}
	if diff := cmp.Diff(want, who); diff != "" {
		t.Errorf("it is told (-want +got):\n%s", diff)
	}
	const password = `{"current_password":"` + adminPassword + `","password":"` + newPassword + `"}`
	for _, c := range []call{
		{method: "DELETE", path: "/api/v1/session"},
		{method: "PUT", path: "/api/v1/users/root/password", body: password},
		{method: "PUT", path: "/api/v1/users/token:nightly/password", body: password},
		{method: "GET", path: "/api/v1/users"},
		{method: "POST", path: "/api/v1/users", body: `{"username":"x","password":"` + newPassword + `"}`},
	} {
		c.token = string(full)
		d.do(c).want(t, http.StatusForbidden, "forbidden")
		c.token, c.cookie = "", string(full)
		d.do(c).want(t, http.StatusUnauthorized, "unauthenticated")
	}
	d.do(call{method: "POST", path: "/api/v1/session", body: credentials("token:nightly", string(full))}).want(t, http.StatusUnauthorized, "invalid_credentials")
	d.do(call{method: "GET", path: "/api/v1/session", cookie: string(full)}).want(t, http.StatusUnauthorized, "unauthenticated")
}
