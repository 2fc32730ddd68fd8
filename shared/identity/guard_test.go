package identity

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// office is a guard's world: who was signed out, and the members of projects.
type office struct {
	over     map[string]bool // by token id
	versions map[string]int64
	projects map[string]app.Project
	err      error
	asked    []string // projects that were read
}

func (o *office) SignedOut(_ context.Context, tokenID, username string, version int64) (bool, error) {
	return o.over[tokenID] || o.versions[username] != version, o.err
}

func (o *office) Project(_ context.Context, name string) (app.Project, error) {
	o.asked = append(o.asked, name)
	p, ok := o.projects[name]
	if !ok {
		return app.Project{}, problem.Of(problem.NotFound)
	}
	return p, nil
}

func newOffice() *office {
	return &office{
		over:     map[string]bool{},
		versions: map[string]int64{"ada": 1, "vic": 1, "dev": 1, "own": 1, "out": 1},
		projects: map[string]app.Project{"shop": {Name: "shop", Members: map[string]app.Role{
			"vic": app.Viewer, "dev": app.Developer, "own": app.Owner,
		}}},
	}
}

// desk is a guard with the clock and keys to make sessions for it.
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
	return desk{o, NewGuard(k, o, o), k, c}
}

func (d desk) open(t *testing.T, username string, admin bool) (Session, Token) {
	t.Helper()
	s := NewSession(Caller{Username: username, Admin: admin}, 1, d.clock.now())
	token, err := d.keys.Sign(s)
	if err != nil {
		t.Fatal(err)
	}
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
		want    problem.Code // "" lets ada in
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
		{"bearer counts beside another's cookie", http.MethodPost, []string{"Authorization", bearer, "Cookie", CookieName + "=" + string(other)}, ""},
		{"a bad bearer beside a good cookie", http.MethodGet, []string{"Authorization", "Bearer x", "Cookie", cookie}, problem.Unauthenticated},
		{"basic auth beside a good cookie", http.MethodGet, []string{"Authorization", "Basic eDp5", "Cookie", cookie}, ""},
		{"two bearers", http.MethodGet, []string{"Authorization", bearer, "Authorization", bearer}, problem.Unauthenticated},
		{"cookies of two people", http.MethodGet, []string{"Cookie", cookie + "; " + CookieName + "=" + string(other)}, problem.Unauthenticated},
		{"the other first", http.MethodGet, []string{"Cookie", CookieName + "=" + string(other) + "; " + cookie}, problem.Unauthenticated},
		{"an ended one of another's first", http.MethodGet, []string{"Cookie", CookieName + "=" + string(ended) + "; " + cookie}, ""},
		{"a forged one first", http.MethodGet, []string{"Cookie", CookieName + "=x.y.z; " + cookie}, ""},
		{"one's own twice", http.MethodGet, []string{"Cookie", cookie + "; " + cookie}, ""},
		{"two of one's own, the CSRF value of the second", http.MethodPost, []string{"Cookie", CookieName + "=" + string(earlier) + "; " + cookie, CSRFHeader, s.CSRF}, ""},
		{"two of one's own, no CSRF value", http.MethodPost, []string{"Cookie", CookieName + "=" + string(earlier) + "; " + cookie}, problem.CSRFRequired},
		{"more than are looked at", http.MethodGet, []string{"Cookie", CookieName + "=a; " + CookieName + "=b; " + CookieName + "=c; " + CookieName + "=d; " + cookie}, problem.Unauthenticated},
		{"the cookie without its prefix", http.MethodGet, []string{"Cookie", "sluice_session=" + string(token)}, problem.Unauthenticated},
		{"an empty bearer", http.MethodGet, []string{"Authorization", "Bearer "}, problem.Unauthenticated},
		{"a bare scheme", http.MethodGet, []string{"Authorization", "Bearer"}, problem.Unauthenticated},
		{"an empty cookie", http.MethodGet, []string{"Cookie", CookieName + "="}, problem.Unauthenticated},
		{"the token under another name", http.MethodGet, []string{"X-Session", string(token)}, problem.Unauthenticated},
		{"nothing", http.MethodGet, nil, problem.Unauthenticated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := d.guard.Caller(request(tt.method, tt.headers...))
			if tt.want != "" {
				wantCode(t, err, tt.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.Caller, got); diff != "" {
				t.Errorf("caller (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndedSessions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s, token := d.open(t, "ada", true)
	r := request(http.MethodGet, "Authorization", "Bearer "+string(token))
	if _, err := d.guard.Caller(r); err != nil {
		t.Fatal(err)
	}
	d.versions["ada"] = 2
	_, err := d.guard.Caller(r)
	wantCode(t, err, problem.Unauthenticated)

	d.versions["ada"], d.over[s.ID] = 1, true
	_, err = d.guard.Caller(r)
	wantCode(t, err, problem.Unauthenticated)

	d.over[s.ID], d.err = false, errors.New("no answer")
	if _, err := d.guard.Caller(r); problem.From(err).Code != problem.Internal {
		t.Errorf("with the store down: %v, want a server's error", err)
	}
}

// TestPolicy reads as the table of roles in decisions section 3.
func TestPolicy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ask := func(username string, admin bool, project string, need app.Role) error {
		_, token := d.open(t, username, admin)
		_, err := d.guard.Require(request(http.MethodGet, "Authorization", "Bearer "+string(token)), project, need)
		return err
	}
	allow := func(username string, need app.Role) {
		t.Helper()
		if err := ask(username, false, "shop", need); err != nil {
			t.Errorf("%s as %s: %v", username, need, err)
		}
	}
	deny := func(username string, need app.Role) {
		t.Helper()
		if err := ask(username, false, "shop", need); !problem.Is(err, problem.Forbidden) {
			t.Errorf("%s as %s: %v, want forbidden", username, need, err)
		}
	}
	allow("vic", app.Viewer)
	deny("vic", app.Developer)
	deny("vic", app.Owner)
	allow("dev", app.Viewer)
	allow("dev", app.Developer)
	deny("dev", app.Owner)
	allow("own", app.Viewer)
	allow("own", app.Developer)
	allow("own", app.Owner)
	deny("out", app.Viewer)
	deny("own", "") // a need that is no role is nobody's

	if err := ask("ada", true, "shop", app.Owner); err != nil {
		t.Errorf("an admin as owner: %v", err)
	}
	wantCode(t, ask("ada", true, "nowhere", app.Viewer), problem.NotFound)
	wantCode(t, ask("ada", true, "no/where", app.Viewer), problem.NotFound)
}

// Whether a project exists is not to be read off the answer to a stranger.
func TestNoOracle(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, token := d.open(t, "out", false)
	r := request(http.MethodGet, "Authorization", "Bearer "+string(token))
	_, there := d.guard.Require(r, "shop", app.Viewer)
	_, nowhere := d.guard.Require(r, "nowhere", app.Viewer)
	if there == nil || there.Error() != nowhere.Error() {
		t.Errorf("%v differs from %v", there, nowhere)
	}
	_, odd := d.guard.Require(r, "../users/ada", app.Viewer)
	if odd == nil || odd.Error() != there.Error() {
		t.Errorf("%v differs from %v", odd, there)
	}
	if diff := cmp.Diff([]string{"shop", "nowhere"}, d.asked); diff != "" {
		t.Errorf("projects that were looked up (-want +got):\n%s", diff)
	}
}

func TestRequireAuthenticatesFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := d.guard.Require(request(http.MethodGet), "shop", app.Viewer)
	wantCode(t, err, problem.Unauthenticated)
	if len(d.asked) != 0 {
		t.Errorf("projects were looked up for nobody: %v", d.asked)
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
	if diff := cmp.Diff(want, w.Header().Values("Set-Cookie")); diff != "" {
		t.Errorf("Set-Cookie (-want +got):\n%s", diff)
	}
}
