package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/tests/check"
)

func (d desk) issue(t *testing.T, name string) (servicetoken.Token, servicetoken.Full) {
	t.Helper()
	token, full, err := servicetoken.New(apikey.Random(), servicetoken.Token{
		Project: "shop", Name: name, Role: app.Developer, CreatedAt: d.clock.now(), ExpiresAt: d.clock.now().Add(time.Hour),
	})
	check.OK(t, err)
	d.tokens[token.ID] = token
	return token, full
}

func withBearer(method, token string) *http.Request {
	return request(method, "Authorization", "Bearer "+token)
}

func TestServiceToken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	token, full := d.issue(t, "nightly")
	r := withBearer(http.MethodPost, string(full))
	r = r.WithContext(reqctx.Begin(t.Context(), reqctx.Request{}))
	got, err := d.guard.Session(r)
	check.OK(t, err)
	want := Session{
		ID: string(token.ID), IssuedAt: token.CreatedAt, ExpiresAt: token.ExpiresAt,
		Caller: Caller{Username: "token:nightly", Grant: Grant{Token: token.ID, Name: "nightly", Project: "shop", Role: app.Developer}},
	}
	check.Equal(t, "session", want, got)
	if who := reqctx.ActorFrom(r.Context()); who != (reqctx.Actor{Kind: reqctx.Token, Name: "token:nightly"}) {
		t.Errorf("caller: got %+v", who)
	}
}

// All invalid tokens get the same response.
func TestServiceTokenRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, good := d.issue(t, "nightly")
	_, other := d.issue(t, "other")
	gone, revoked := d.issue(t, "revoked")
	delete(d.tokens, gone.ID)
	over, expired := d.issue(t, "expired")
	over.ExpiresAt = d.clock.now()
	d.tokens[over.ID] = over
	forged, full := d.issue(t, "forged")
	forged.Hash = apikey.HashOf([]byte(other))
	d.tokens[forged.ID] = forged
	_, session := d.open(t, "ada", true)
	tests := []struct {
		name    string
		headers []string
		asked   int // reads of the store
	}{
		{"revoked", []string{"Authorization", "Bearer " + string(revoked)}, 1},
		{"expired", []string{"Authorization", "Bearer " + string(expired)}, 1},
		{"another secret", []string{"Authorization", "Bearer " + string(full)}, 1},
		{"truncated", []string{"Authorization", "Bearer " + string(good[:len(good)-1])}, 0},
		{"another's id", []string{"Authorization", "Bearer " + string(other[:22]) + string(good[22:])}, 0},
		{"the marker", []string{"Authorization", "Bearer sluice_st_"}, 0},
		{"by cookie", []string{"Cookie", CookieName + "=" + string(good)}, 0},
		{"by cookie with a CSRF value", []string{"Cookie", CookieName + "=" + string(good), CSRFHeader, ""}, 0},
		{"as an API key", []string{"X-API-Key", string(good)}, 0},
		{"as a webhook's", []string{"X-Service-Token", string(good)}, 0},
		{"with a session", []string{"Authorization", "Bearer " + string(good), "Authorization", "Bearer " + string(session)}, 0},
		{"as basic", []string{"Authorization", "Basic " + string(good)}, 0},
	}
	for _, tt := range tests {
		d.asked = 0
		_, err := d.guard.Session(request(http.MethodPost, tt.headers...))
		if p := problem.From(err); err == nil || p.Code != problem.Unauthenticated || p.Message != problem.FromCode(problem.Unauthenticated).Message {
			t.Errorf("%s: %v", tt.name, err)
		}
		if d.asked != tt.asked {
			t.Errorf("%s: got %d reads of the store, want %d", tt.name, d.asked, tt.asked)
		}
	}
	d.err = errors.New("no answer")
	if _, err := d.guard.Session(withBearer(http.MethodGet, string(good))); err == nil || problem.From(err).Code != problem.Internal || strings.Contains(err.Error(), string(good)) {
		t.Errorf("with the store down: got %v, want a server error without the token", err)
	}
	if len(d.used) > 0 {
		t.Errorf("written uses: got %v, want none", d.used)
	}
}

func TestServiceTokenBesideCookie(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, full := d.issue(t, "nightly")
	s, session := d.open(t, "ada", true)
	for want, headers := range map[string][]string{
		"token:nightly": {"Authorization", "bEARER " + string(full), "Cookie", CookieName + "=" + string(session)},
		"ada":           {"Cookie", CookieName + "=" + string(full) + "; " + CookieName + "=" + string(session), CSRFHeader, s.CSRF},
	} {
		got, err := d.guard.Session(request(http.MethodPost, headers...))
		if err != nil || got.Caller.Username != want {
			t.Errorf("%+v, %v; want %s", got.Caller, err, want)
		}
	}
}

func TestUseIsWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, full := d.issue(t, "nightly")
	use := func() {
		t.Helper()
		if _, err := d.guard.Session(withBearer(http.MethodGet, string(full))); err != nil {
			t.Error(err)
		}
	}
	start := d.clock.now()
	use()
	d.clock.advance(5*time.Minute - 1)
	use()
	d.clock.advance(1)
	use()
	d.clock.advance(10 * time.Minute)
	d.full = context.DeadlineExceeded
	use()
	check.Equal(t, "written", []time.Time{start, start.Add(5 * time.Minute)}, d.used)
}

func TestRoleIn(t *testing.T) {
	t.Parallel()
	shop := app.Project{Name: "shop", Members: map[string]app.Role{"ada": app.Viewer, "token:nightly": app.Owner}}
	token := Caller{Username: "token:nightly", Grant: Grant{Project: "shop", Role: app.Developer}}
	for want, c := range map[app.Role]Caller{app.Owner: {Username: "root", Admin: true}, app.Viewer: {Username: "ada"}, app.Developer: token} {
		if got := c.RoleIn(shop); got != want {
			t.Errorf("%+v: got %q, want %q", c, got, want)
		}
	}
	for _, c := range []Caller{{Username: "eve"}, {}} {
		if got := c.RoleIn(shop); got != "" {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	for _, p := range []app.Project{{}, {Name: "shop-2", Members: shop.Members}} {
		if got := token.RoleIn(p); got != "" {
			t.Errorf("token of shop: got role %q in %q", got, p.Name)
		}
	}
}
