package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

func newUserOffice(t *testing.T) *office {
	t.Helper()
	o := newOffice(t)
	o.answer("GET /api/v1/session", 200, wire.Session{CSRFToken: testCSRF, User: wire.Caller{Username: "ada", Admin: true}})
	at := time.Now().Add(-10 * time.Minute)
	o.answer("GET /api/v1/users", 200, wire.List[wire.User]{Items: []wire.User{
		{Username: "ada", Admin: true, State: "active", LastSignIn: &at}, {Username: "bob", State: "active"}, {Username: "cyd", State: "deactivated"},
	}})
	return o
}

func TestUsersAreListed(t *testing.T) {
	t.Parallel()
	body := newUserOffice(t).get("/console/users").Text()
	for _, want := range []string{
		"10 min ago", "Never", "Deactivated", "/console/users/ada/revoke-admin", "/console/users/bob/grant-admin", "/console/users/bob/deactivate",
		"/console/users/cyd/activate", "/console/users/bob/end-sessions", "/console/users/bob/remove", "/console/users/bob/password",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	for _, not := range []string{"/console/users/ada/grant-admin", "/console/users/cyd/deactivate", "/console/users/bob/activate", "/console/users/ada/password"} {
		if strings.Contains(body, not+`"`) {
			t.Errorf("the page contains %q", not)
		}
	}
}

func TestUserActions(t *testing.T) {
	t.Parallel()
	const patch, remove = "PATCH /api/v1/users/bob", "DELETE /api/v1/users/bob"
	for _, tt := range []struct {
		action, question, call, body string
		leaves                       bool
	}{
		{"deactivate", "Deactivate bob?", patch, `{"state":"deactivated"}`, true},
		{"activate", "Activate bob?", patch, `{"state":"active"}`, false},
		{"grant-admin", "Grant admin rights to bob?", patch, `{"admin":true}`, false},
		{"revoke-admin", "Revoke the admin rights of bob?", patch, `{"admin":false}`, true},
		{"end-sessions", "End all sessions of bob?", "DELETE /api/v1/users/bob/sessions", "", true},
		{"remove", "Remove bob?", remove, "", true},
	} {
		t.Run(tt.action, func(t *testing.T) {
			t.Parallel()
			o := newUserOffice(t)
			path := "/console/users/bob/" + tt.action
			o.get(path).Shows(200, tt.question)
			if got := o.changes(); len(got) != 0 {
				t.Errorf("the question made the changes %q", got)
			}
			count := 0
			left := wire.RemainingTokens{TokenCount: &count, Tokens: []wire.RemainingToken{}}
			respond := func() { o.answer(tt.call, 200, left) }
			if strings.HasPrefix(tt.call, "PATCH") {
				respond = func() {
					o.answer(tt.call, 200, wire.UpdatedUser{User: wire.User{Username: "bob"}, RemainingTokens: left})
				}
			}
			respond()
			if w := o.post(path, nil); w.Status != http.StatusSeeOther || w.Header.Get("Location") != "/console/users" {
				t.Errorf("got %d to %s", w.Status, w.Header.Get("Location"))
			}
			if got := o.changes(); len(got) != 1 || strings.TrimSpace(got[0]) != strings.TrimSpace(tt.call+" "+tt.body) {
				t.Errorf("got the calls %q, want %s %s", got, tt.call, tt.body)
			}
			count = 2
			left.Tokens = []wire.RemainingToken{{SessionToken: wire.SessionToken{Name: "nightly", Project: "shop", Role: "developer"}, ExpiresAt: time.Now()}}
			respond()
			if w := o.post(path, nil); tt.leaves {
				w.Shows(200, "nightly", "/console/projects/shop/members", "Service tokens that are not listed here: 1.")
			} else {
				w.Shows(http.StatusSeeOther)
			}
			left = wire.RemainingTokens{Tokens: []wire.RemainingToken{}}
			respond()
			if w := o.post(path, nil); tt.leaves {
				w.Shows(200, "is unavailable")
			}
			o.refuse(tt.call, 422, "last_admin")
			o.post(path, nil).Shows(422, "The API says last_admin.")
			o.refuse(tt.call, 403, "forbidden")
			o.post(path, nil).Shows(403, "The API says forbidden.")
			o.refuse(tt.call, 404, "not_found")
			o.post(path, nil).Shows(http.StatusSeeOther)
		})
	}
	o := newUserOffice(t)
	o.get("/console/users/bob/promote").Shows(404)
	o.post("/console/users/bob/promote", nil).Shows(404)
}

// An admin who changes their own rights may no longer read the list of users.
func TestOwnUser(t *testing.T) {
	t.Parallel()
	o := newUserOffice(t)
	count := 0
	o.answer("PATCH /api/v1/users/ada", 200, wire.UpdatedUser{RemainingTokens: wire.RemainingTokens{TokenCount: &count}})
	if w := o.post("/console/users/ada/revoke-admin", nil); w.Status != http.StatusSeeOther || w.Header.Get("Location") != "/console/projects" {
		t.Errorf("got %d to %s", w.Status, w.Header.Get("Location"))
	}
}

func TestEndOwnSessions(t *testing.T) {
	t.Parallel()
	const path = "/console/account/end-sessions"
	o := newOffice(t)
	o.get(path).Shows(200, "End all your sessions?")
	o.refuse("DELETE /api/v1/session/all", 503, "unavailable")
	o.post(path, nil).Shows(503, "The API says unavailable.")
	o.answer("DELETE /api/v1/session/all", 200, wire.RemainingTokens{})
	w := o.post(path, nil)
	if cookie := strings.Join(w.Header.Values("Set-Cookie"), "; "); w.Status != http.StatusSeeOther || w.Header.Get("Location") != signInPath || !strings.Contains(cookie, "Max-Age=0") {
		t.Errorf("got %d to %s, cookies %s", w.Status, w.Header.Get("Location"), cookie)
	}
}
