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
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a := d.trySignIn("root", adminPassword)
	s := functest.Read[wire.OpenedSession](a, http.StatusOK)
	check.Equal(t, "user", wire.Caller{Username: "root", Admin: true}, s.User)
	if left := s.ExpiresAt.Sub(d.service.now()); left < identity.SessionTTL-time.Minute || left > identity.SessionTTL {
		t.Errorf("session duration: got %s, want 12h", left)
	}
	set := a.Header.Get("Set-Cookie")
	if !strings.HasPrefix(set, "__Host-sluice_session="+s.Token+"; ") ||
		!strings.Contains(set, "; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("cookie: got %q", set)
	}
	for name, header := range map[string]http.Header{"bearer": functest.Bearer(s.Token), "cookie": cookie(s.Token, "")} {
		a := whoAmI(header).Send(t, d.handler)
		check.Equal(t, "session by "+name, s.Session, functest.Read[wire.Session](a, http.StatusOK))
		if strings.Contains(string(a.Body), s.Token) {
			t.Errorf("%s: scripts can read the token", name)
		}
	}
}

func TestSignInRefuses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tests := []struct {
		name, body, contentType string
		status                  int
		code                    problem.Code
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
			c := functest.Call{Method: "POST", Path: "/api/v1/session", Body: tt.body}
			if tt.contentType != "" {
				c.Header = http.Header{"Content-Type": {tt.contentType}}
			}
			own := c.Send(t, d.replica(d.cfg).Handler())
			own.Refused(tt.status, tt.code)
			if c := own.Header.Get("Set-Cookie"); c != "" {
				t.Errorf("rejected sign-in with a cookie: %q", c)
			}
		})
	}
}

func TestUnknownUserAndWrongPasswordLookAlike(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	wrong, unknown := d.trySignIn("root", "wrong password"), d.trySignIn("nobody", "wrong password")
	wrong.Header.Del("X-Request-Id")
	unknown.Header.Del("X-Request-Id")
	if diff := cmp.Diff(wrong.Header, unknown.Header); diff != "" || string(wrong.Body) != string(unknown.Body) || wrong.Status != unknown.Status {
		t.Errorf("wrong password: got %d %q, unknown user: got %d %q; headers:\n%s", wrong.Status, wrong.Body, unknown.Status, unknown.Body, diff)
	}
}

func TestSignOutIsAtOnceAndEverywhere(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	other := d.replica(d.cfg).Handler()
	s, stays := d.signIn("root", adminPassword), d.signIn("root", adminPassword)

	functest.Call{Method: "DELETE", Path: "/api/v1/session", Header: cookie(s.Token, "")}.Send(t, d.handler).Refused(403, "csrf_required")
	functest.Call{Method: "DELETE", Path: "/api/v1/session", Header: cookie(s.Token, stays.CSRFToken)}.Send(t, d.handler).Refused(403, "csrf_required")
	whoAmI(functest.Bearer(s.Token)).Send(t, other).Is(http.StatusOK)

	a := functest.Call{Method: "DELETE", Path: "/api/v1/session", Header: cookie(s.Token, s.CSRFToken)}.Send(t, d.handler)
	if a.Status != http.StatusNoContent || !strings.HasPrefix(a.Header.Get("Set-Cookie"), "__Host-sluice_session=; Path=/; Max-Age=0") {
		t.Fatalf("sign out: %d %s, cookie %q", a.Status, a.Body, a.Header.Get("Set-Cookie"))
	}
	for _, h := range []http.Handler{d.handler, other} {
		whoAmI(functest.Bearer(s.Token)).Send(t, h).Refused(401, "unauthenticated")
		whoAmI(cookie(s.Token, "")).Send(t, h).Refused(401, "unauthenticated")
		functest.Call{Method: "DELETE", Path: "/api/v1/session", Header: functest.Bearer(s.Token)}.Send(t, h).Refused(401, "unauthenticated")
		whoAmI(functest.Bearer(stays.Token)).Send(t, h).Is(http.StatusOK)
	}
}

func TestRoutesRequireSession(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	for _, c := range []functest.Call{
		whoAmI(nil),
		{Method: "DELETE", Path: "/api/v1/session"},
		{Method: "DELETE", Path: "/api/v1/session/all"},
		{Method: "GET", Path: "/api/v1/users"},
		{Method: "POST", Path: "/api/v1/users", Body: credentials("ada", adaPassword)},
		{Method: "PATCH", Path: "/api/v1/users/root", Body: `{"state":"deactivated"}`},
		{Method: "DELETE", Path: "/api/v1/users/root"},
		{Method: "DELETE", Path: "/api/v1/users/root/sessions"},
		{Method: "PUT", Path: "/api/v1/users/root/password", Body: `{"password":"another password"}`},
		whoAmI(functest.Bearer("not-a-token")),
	} {
		c.Send(t, d.handler).Refused(401, "unauthenticated")
	}
	functest.Call{Method: "PATCH", Path: "/api/v1/session"}.Send(t, d.handler).Refused(405, "method_not_allowed")
	functest.Call{Method: "GET", Path: "/api/v1/sessions"}.Send(t, d.handler).Refused(404, "not_found")
	check.Equal(t, "users", []string{"root"}, d.usernames())
}

func TestServiceTokenIsNotASession(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	p := app.Project{Name: "shop", Members: map[string]app.Role{"root": app.Owner}}
	check.OK(t, d.store.CreateProject(t.Context(), p))
	token, full, err := servicetoken.New(apikey.Random(), servicetoken.Token{
		Project: "shop", Name: "nightly", Role: app.Owner, ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
	})
	if err == nil {
		err = d.store.CreateToken(t.Context(), token)
	}
	check.OK(t, err)
	who := functest.Read[wire.Session](whoAmI(functest.Bearer(string(full))).Send(t, d.handler), http.StatusOK)
	want := wire.Session{
		ExpiresAt: token.ExpiresAt, User: wire.Caller{Username: "token:nightly"},
		ServiceToken: &wire.SessionToken{ID: string(token.ID), Name: "nightly", Project: "shop", Role: "owner"},
	}
	check.Equal(t, "session", want, who)
	const password = `{"current_password":"` + adminPassword + `","password":"` + newPassword + `"}`
	for _, c := range []functest.Call{
		{Method: "DELETE", Path: "/api/v1/session"},
		{Method: "DELETE", Path: "/api/v1/session/all"},
		{Method: "DELETE", Path: "/api/v1/users/root"},
		{Method: "DELETE", Path: "/api/v1/users/root/sessions"},
		{Method: "PATCH", Path: "/api/v1/users/root", Body: `{"admin":false}`},
		{Method: "PUT", Path: "/api/v1/users/root/password", Body: password},
		{Method: "PUT", Path: "/api/v1/users/token:nightly/password", Body: password},
		{Method: "GET", Path: "/api/v1/users"},
		{Method: "POST", Path: "/api/v1/users", Body: `{"username":"x","password":"` + newPassword + `"}`},
	} {
		c.Header = functest.Bearer(string(full))
		c.Send(t, d.handler).Refused(http.StatusForbidden, "forbidden")
		c.Header = cookie(string(full), "")
		c.Send(t, d.handler).Refused(http.StatusUnauthorized, "unauthenticated")
	}
	d.trySignIn("token:nightly", string(full)).Refused(http.StatusUnauthorized, "invalid_credentials")
	whoAmI(cookie(string(full), "")).Send(t, d.handler).Refused(http.StatusUnauthorized, "unauthenticated")
}
