package identity

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

type office struct {
	over     map[string]bool // by token id
	versions map[string]int64
	admins   map[string]bool
	err      error

	tokens map[servicetoken.ID]servicetoken.Token
	asked  int
	used   []time.Time
	full   error // error of UseToken
}

func (o *office) ServiceToken(_ context.Context, id servicetoken.ID) (servicetoken.Token, error) {
	o.asked++
	if o.err != nil {
		return servicetoken.Token{}, o.err
	}
	t, ok := o.tokens[id]
	if !ok {
		return servicetoken.Token{}, problem.FromCode(problem.NotFound)
	}
	return t, nil
}

func (o *office) UseToken(_ context.Context, t servicetoken.Token, at time.Time) error {
	if o.full != nil {
		return o.full
	}
	t.LastUsed = at
	o.tokens[t.ID] = t
	o.used = append(o.used, at)
	return nil
}

func (o *office) Standing(_ context.Context, tokenID, username string, version int64) (user.Standing, error) {
	return user.Standing{Over: o.over[tokenID] || o.versions[username] != version, Admin: o.admins[username]}, o.err
}

func newOffice() *office {
	return &office{
		over:     map[string]bool{},
		versions: map[string]int64{"ada": 1, "vic": 1},
		admins:   map[string]bool{"ada": true},
		tokens:   map[servicetoken.ID]servicetoken.Token{},
	}
}

type desk struct {
	*office
	guard *Guard
	keys  *Keyring
	clock *clock
}

func newDesk(t *testing.T) desk {
	t.Helper()
	o, c := newOffice(), newClock()
	k := testKeyring(t, c, "a")
	return desk{o, NewGuard(k, o), k, c}
}

func (d desk) open(t *testing.T, username string, admin bool) (Session, Token) {
	t.Helper()
	s := NewSession(Caller{Username: username, Admin: admin}, 1, d.clock.now())
	token, err := d.keys.Sign(s)
	check.OK(t, err)
	return s, token
}

func request(method string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "/api/v1/projects/shop", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestCallerByCredentials(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s, token := d.open(t, "ada", true)
	_, other := d.open(t, "vic", false)
	_, earlier := d.open(t, "ada", true)
	over, ended := d.open(t, "dev", false)
	d.over[over.ID] = true
	bearer, cookie := "Bearer "+string(token), CookieName+"="+string(token)
	tests := []struct {
		name    string
		method  string
		headers []string
		want    problem.Code // "" for success
	}{
		{"bearer reads", http.MethodGet, []string{"Authorization", bearer}, ""},
		{"bearer changes without a CSRF value", http.MethodPost, []string{"Authorization", bearer}, ""},
		{"the scheme in any case", http.MethodPost, []string{"Authorization", "bEARER " + string(token)}, ""},
		{"cookie reads", http.MethodGet, []string{"Cookie", cookie}, ""},
		{"cookie HEAD", http.MethodHead, []string{"Cookie", cookie}, ""},
		{"cookie changes with the CSRF value", http.MethodPatch, []string{"Cookie", cookie, CSRFHeader, s.CSRF}, ""},
		{"cookie POST without it", http.MethodPost, []string{"Cookie", cookie}, problem.CSRFRequired},
		{"cookie PUT without it", http.MethodPut, []string{"Cookie", cookie}, problem.CSRFRequired},
		{"cookie PATCH without it", http.MethodPatch, []string{"Cookie", cookie}, problem.CSRFRequired},
		{"cookie DELETE without it", http.MethodDelete, []string{"Cookie", cookie}, problem.CSRFRequired},
		{"cookie and an unknown method", "PURGE", []string{"Cookie", cookie}, problem.CSRFRequired},
		{"an empty CSRF value", http.MethodPost, []string{"Cookie", cookie, CSRFHeader, ""}, problem.CSRFRequired},
		{"a wrong CSRF value", http.MethodPost, []string{"Cookie", cookie, CSRFHeader, s.CSRF + "A"}, problem.CSRFRequired},
		{"bearer has precedence over another user's cookie", http.MethodPost, []string{"Authorization", bearer, "Cookie", CookieName + "=" + string(other)}, ""},
		{"an invalid bearer with a valid cookie", http.MethodGet, []string{"Authorization", "Bearer x", "Cookie", cookie}, problem.Unauthenticated},
		{"basic auth with a valid cookie", http.MethodGet, []string{"Authorization", "Basic eDp5", "Cookie", cookie}, ""},
		{"two bearers", http.MethodGet, []string{"Authorization", bearer, "Authorization", bearer}, problem.Unauthenticated},
		{"cookies of two people", http.MethodGet, []string{"Cookie", cookie + "; " + CookieName + "=" + string(other)}, problem.Unauthenticated},
		{"the other first", http.MethodGet, []string{"Cookie", CookieName + "=" + string(other) + "; " + cookie}, problem.Unauthenticated},
		{"an ended one of another's first", http.MethodGet, []string{"Cookie", CookieName + "=" + string(ended) + "; " + cookie}, ""},
		{"a forged one first", http.MethodGet, []string{"Cookie", CookieName + "=x.y.z; " + cookie}, ""},
		{"one's own twice", http.MethodGet, []string{"Cookie", cookie + "; " + cookie}, ""},
		{"two of the same user, the CSRF value of the second", http.MethodPost, []string{"Cookie", CookieName + "=" + string(earlier) + "; " + cookie, CSRFHeader, s.CSRF}, ""},
		{"two of the same user, no CSRF value", http.MethodPost, []string{"Cookie", CookieName + "=" + string(earlier) + "; " + cookie}, problem.CSRFRequired},
		{"too many cookies", http.MethodGet, []string{"Cookie", CookieName + "=a; " + CookieName + "=b; " + CookieName + "=c; " + CookieName + "=d; " + cookie}, problem.Unauthenticated},
		{"the cookie without its prefix", http.MethodGet, []string{"Cookie", "sluice_session=" + string(token)}, problem.Unauthenticated},
		{"an empty bearer", http.MethodGet, []string{"Authorization", "Bearer "}, problem.Unauthenticated},
		{"a bare scheme", http.MethodGet, []string{"Authorization", "Bearer"}, problem.Unauthenticated},
		{"an empty cookie", http.MethodGet, []string{"Cookie", CookieName + "="}, problem.Unauthenticated},
		{"the token under another name", http.MethodGet, []string{"X-Session", string(token)}, problem.Unauthenticated},
		{"an API key", http.MethodGet, []string{"X-API-Key", "sluice_ab12cd34_" + strings.Repeat("0", 38)}, problem.Unauthenticated},
		{"an API key as bearer", http.MethodGet, []string{"Authorization", "Bearer sluice_ab12cd34_" + strings.Repeat("0", 38)}, problem.Unauthenticated},
		{"nothing", http.MethodGet, nil, problem.Unauthenticated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := d.guard.Session(request(tt.method, tt.headers...))
			if tt.want != "" {
				wantCode(t, err, tt.want)
				return
			}
			check.OK(t, err)
			check.Equal(t, "caller", s.Caller, got.Caller)
		})
	}
}

func TestCookieRequestNeedsCSRFToken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s, token := d.open(t, "ada", true)
	cookie := CookieName + "=" + string(token)
	for name, tt := range map[string]struct {
		headers []string
		want    bool
	}{
		"cookie":                          {headers: []string{"Cookie", cookie}, want: true},
		"cookie and a wrong CSRF value":   {headers: []string{"Cookie", cookie, CSRFHeader, s.CSRF + "A"}, want: true},
		"cookie and the CSRF value":       {headers: []string{"Cookie", cookie, CSRFHeader, s.CSRF}},
		"bearer token":                    {headers: []string{"Authorization", "Bearer " + string(token)}},
		"bearer token next to the cookie": {headers: []string{"Authorization", "Bearer " + string(token), "Cookie", cookie}},
	} {
		got, err := d.guard.Session(request(http.MethodGet, tt.headers...))
		if err != nil || got.Forgeable != tt.want {
			t.Errorf("%s: got %t, %v, want %t", name, got.Forgeable, err, tt.want)
		}
	}
}

func TestEndedSessions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s, token := d.open(t, "ada", true)
	r := request(http.MethodGet, "Authorization", "Bearer "+string(token))
	if _, err := d.guard.Session(r); err != nil {
		t.Fatal(err)
	}
	d.versions["ada"] = 2
	_, err := d.guard.Session(r)
	wantCode(t, err, problem.Unauthenticated)

	d.versions["ada"], d.over[s.ID] = 1, true
	_, err = d.guard.Session(r)
	wantCode(t, err, problem.Unauthenticated)

	d.over[s.ID], d.err = false, errors.New("no answer")
	if _, err := d.guard.Session(r); problem.From(err).Code != problem.Internal {
		t.Errorf("with the store down: got %v, want a server error", err)
	}
}

// The admin claim of a token decides nothing.
func TestAdminRightsComeFromTheStore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, claimed := range []bool{true, false} {
		_, token := d.open(t, "ada", claimed)
		for _, is := range []bool{true, false, true} {
			d.admins["ada"] = is
			s, err := d.guard.Session(request(http.MethodGet, "Authorization", "Bearer "+string(token)))
			if err != nil || s.Caller.Admin != is {
				t.Errorf("claim %t, stored %t: got %t, %v", claimed, is, s.Caller.Admin, err)
			}
		}
	}
}

func TestCookie(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	SetCookie(w, "abc", newClock().now())
	ClearCookie(w)
	want := []string{
		"__Host-sluice_session=abc; Path=/; Expires=Sun, 01 Mar 2026 12:00:00 GMT; HttpOnly; Secure; SameSite=Lax",
		"__Host-sluice_session=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax",
	}
	check.Equal(t, "Set-Cookie", want, w.Header().Values("Set-Cookie"))
}
