package session

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func patchUser(token, username, body string) functest.Call {
	return functest.Call{Method: "PATCH", Path: "/api/v1/users/" + username, Body: body, Header: functest.Bearer(token)}
}

func (d *desk) remove(token, path string) functest.Answer {
	d.t.Helper()
	return functest.Call{Method: "DELETE", Path: "/api/v1/" + path, Header: functest.Bearer(token)}.Send(d.t, d.handler)
}

// token stores a service token that a user created.
func (d *desk) token(project, name, by string, expires time.Time) servicetoken.Token {
	d.t.Helper()
	token, _, err := servicetoken.New(apikey.Random(), servicetoken.Token{Project: project, Name: name, Role: app.Developer, CreatedBy: by, ExpiresAt: expires})
	if err == nil {
		err = d.store.CreateToken(d.t.Context(), token)
	}
	check.OK(d.t, err)
	return token
}

func TestDeactivateUser(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.addUser("ada", adaPassword)
	one, two, root := d.signIn("ada", adaPassword), d.signIn("ada", adaPassword), d.signIn("root", adminPassword)
	u := functest.Read[wire.UpdatedUser](patchUser(root.Token, "ada", `{"state":"deactivated"}`).Send(t, d.handler), http.StatusOK)
	if u.Username != "ada" || u.State != "deactivated" || u.LastSignIn == nil {
		t.Errorf("got %+v", u)
	}
	for _, s := range []wire.OpenedSession{one, two} {
		whoAmI(functest.Bearer(s.Token)).Send(t, d.handler).Refused(http.StatusUnauthorized, "unauthenticated")
	}
	wrong, right, device := d.trySignIn("ada", adaPassword+"x"), d.trySignIn("ada", adaPassword), signInFrom("ada", adaPassword, "", one.Device).Send(t, d.handler)
	for _, a := range []functest.Answer{right, device} {
		a.Refused(http.StatusUnauthorized, "invalid_credentials")
		if string(a.Body) != string(wrong.Body) {
			t.Errorf("right password: got %s, wrong password: %s", a.Body, wrong.Body)
		}
	}
	var causes []any
	for _, r := range d.audited(t, audit.SignIn) {
		if r.Outcome == audit.Failed {
			causes = append(causes, r.New["cause"])
		}
	}
	check.Equal(t, "causes, newest first", []any{"user_deactivated", "user_deactivated", nil}, causes)

	patchUser(root.Token, "ada", `{"state":"active"}`).Send(t, d.handler).Is(http.StatusOK)
	whoAmI(functest.Bearer(one.Token)).Send(t, d.handler).Refused(http.StatusUnauthorized, "unauthenticated")
	d.signIn("ada", adaPassword)
}

// The right password of a deactivated user counts as a failure.
func TestDeactivatedUserIsThrottled(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	root := d.signIn("root", adminPassword)
	patchUser(root.Token, "ada", `{"state":"deactivated"}`).Send(t, d.handler).Is(http.StatusOK)
	for range d.cfg.Burst {
		signInFrom("ada", adaPassword, "198.51.100.7", "").Send(t, d.handler).Refused(http.StatusUnauthorized, "invalid_credentials")
	}
	signInFrom("ada", adaPassword, "198.51.100.7", "").Send(t, d.handler).Refused(http.StatusTooManyRequests, "rate_limited")
}

// Admin rights change with the next request of a session.
func TestAdminRights(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	ada, root := d.signIn("ada", adaPassword), d.signIn("root", adminPassword)
	list := functest.Call{Method: "GET", Path: "/api/v1/users", Header: functest.Bearer(ada.Token)}
	list.Send(t, d.handler).Refused(http.StatusForbidden, "forbidden")
	if u := functest.Read[wire.UpdatedUser](patchUser(root.Token, "ada", `{"admin":true}`).Send(t, d.handler), http.StatusOK); !u.Admin {
		t.Errorf("granted: got %+v", u)
	}
	list.Send(t, d.handler).Is(http.StatusOK)
	if who := functest.Read[wire.Session](whoAmI(functest.Bearer(ada.Token)).Send(t, d.handler), http.StatusOK); !who.User.Admin {
		t.Errorf("session of the new admin: got %+v", who)
	}
	again := d.signIn("ada", adaPassword) // its token claims admin rights
	patchUser(root.Token, "ada", `{"admin":false}`).Send(t, d.handler).Is(http.StatusOK)
	for _, s := range []wire.OpenedSession{ada, again} {
		list.Header = functest.Bearer(s.Token)
		list.Send(t, d.handler).Refused(http.StatusForbidden, "forbidden")
		if who := functest.Read[wire.Session](whoAmI(functest.Bearer(s.Token)).Send(t, d.handler), http.StatusOK); who.User.Admin {
			t.Errorf("session of the former admin: got %+v", who)
		}
	}
}

func TestUpdateUserRefuses(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	ada, root := d.signIn("ada", adaPassword), d.signIn("root", adminPassword)
	users := func() []string {
		t.Helper()
		var all []string
		for _, name := range d.usernames() {
			u, err := d.store.User(t.Context(), name)
			check.OK(t, err)
			all = append(all, name+" "+string(u.State))
		}
		return all
	}
	before := users()
	for _, tt := range []struct {
		name, token, username, body string
		status                      int
		code                        problem.Code
	}{
		{"a user", ada.Token, "ada", `{"admin":true}`, 403, "forbidden"},
		{"a missing user", root.Token, "bob", `{"state":"active"}`, 404, "not_found"},
		{"an invalid name", root.Token, "..%2fada", `{"state":"active"}`, 404, "not_found"},
		{"an unknown state", root.Token, "ada", `{"state":"removed"}`, 422, "invalid_state"},
		{"an empty state", root.Token, "ada", `{"state":""}`, 422, "invalid_state"},
		{"null for the state", root.Token, "ada", `{"state":null}`, 422, "missing_field"},
		{"null for admin", root.Token, "ada", `{"admin":null}`, 422, "missing_field"},
		{"a number for the state", root.Token, "ada", `{"state":1}`, 400, "wrong_type"},
		{"text for admin", root.Token, "ada", `{"admin":"yes"}`, 400, "wrong_type"},
		{"another field", root.Token, "ada", `{"version":1}`, 400, "unknown_field"},
		{"the last admin", root.Token, "root", `{"admin":false}`, 422, "last_admin"},
		{"the last admin, deactivated", root.Token, "root", `{"state":"deactivated"}`, 422, "last_admin"},
	} {
		a := patchUser(tt.token, tt.username, tt.body).Send(t, d.handler)
		if a.Status != tt.status || a.Code() != tt.code {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, a.Status, a.Body, tt.status, tt.code)
		}
	}
	d.remove(ada.Token, "users/ada").Refused(http.StatusForbidden, "forbidden")
	d.remove(ada.Token, "users/ada/sessions").Refused(http.StatusForbidden, "forbidden")
	d.remove(root.Token, "users/root").Refused(http.StatusUnprocessableEntity, "last_admin")
	d.remove(root.Token, "users/bob").Refused(http.StatusNotFound, "not_found")
	d.remove(root.Token, "users/bob/sessions").Refused(http.StatusNotFound, "not_found")
	check.Equal(t, "users", before, users())
	for _, s := range []wire.OpenedSession{ada, root} {
		whoAmI(functest.Bearer(s.Token)).Send(t, d.handler).Is(http.StatusOK)
	}
	if records := d.audited(t, audit.UpdateUser); len(records) != 0 {
		t.Errorf("records of rejected changes: got %+v", records)
	}
}

func TestRemoveUser(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	for name, members := range map[string]map[string]app.Role{
		"bank": {"ada": app.Owner, "root": app.Owner}, "lab": {"ada": app.Owner}, "shop": {"ada": app.Viewer, "root": app.Owner},
	} {
		check.OK(t, d.store.CreateProject(t.Context(), app.Project{Name: name, Members: members}))
	}
	ada, root := d.signIn("ada", adaPassword), d.signIn("root", adminPassword)
	a := d.remove(root.Token, "users/ada")
	a.Refused(http.StatusUnprocessableEntity, "last_owner")
	if !strings.Contains(string(a.Body), "active owner: lab.") {
		t.Errorf("got %s, want the project lab", a.Body)
	}
	whoAmI(functest.Bearer(ada.Token)).Send(t, d.handler).Is(http.StatusOK)
	p, err := d.store.Project(t.Context(), "lab")
	check.OK(t, err)
	check.OK(t, d.store.DeleteProject(t.Context(), p))

	valid := d.token("shop", "nightly", "ada", time.Now().Add(time.Hour).UTC().Truncate(time.Second))
	d.token("shop", "over", "ada", time.Now().Add(-time.Hour))
	d.token("shop", "others", "root", time.Now().Add(time.Hour))
	left := functest.Read[wire.RemainingTokens](d.remove(root.Token, "users/ada"), http.StatusOK)
	count := 1
	want := wire.RemainingTokens{TokenCount: &count, Tokens: []wire.RemainingToken{{
		SessionToken: wire.SessionToken{ID: string(valid.ID), Name: "nightly", Project: "shop", Role: "developer"}, ExpiresAt: valid.ExpiresAt,
	}}}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("remaining tokens (-want +got):\n%s", diff)
	}
	whoAmI(functest.Bearer(ada.Token)).Send(t, d.handler).Refused(http.StatusUnauthorized, "unauthenticated")
	d.trySignIn("ada", adaPassword).Refused(http.StatusUnauthorized, "invalid_credentials")
	d.remove(root.Token, "users/ada").Refused(http.StatusNotFound, "not_found")
	for _, name := range []string{"bank", "shop"} {
		p, err := d.store.Project(t.Context(), name)
		check.OK(t, err)
		check.Equal(t, "members of "+name, map[string]app.Role{"root": app.Owner}, p.Members)
	}
	d.clock.Advance(time.Second)
	d.addUser("ada", adaPassword) // another user with the same name
	whoAmI(functest.Bearer(ada.Token)).Send(t, d.handler).Refused(http.StatusUnauthorized, "unauthenticated")
	if records := d.audited(t, audit.RemoveUser); len(records) != 1 || records[0].Resource != "users/ada" || records[0].Actor.Name != "root" {
		t.Errorf("records of the removal: got %+v", records)
	}
}

// TestRemovalWithoutTokens verifies that a user whose tokens cannot be read is not removed: another
// call could not list them.
func TestRemovalWithoutTokens(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	check.OK(t, d.store.CreateProject(t.Context(), app.Project{Name: "shop", Members: map[string]app.Role{"root": app.Owner}}))
	token := d.token("shop", "nightly", "ada", time.Now().Add(time.Hour))
	root := d.signIn("root", adminPassword)
	storetest.Change(t, d.project, "tokens/"+string(token.ID), map[string]any{"expires_at": "damaged"})
	d.remove(root.Token, "users/ada").Refused(http.StatusInternalServerError, "internal")
	if _, err := d.store.User(t.Context(), "ada"); err != nil {
		t.Errorf("after the failure: got %v, want the user", err)
	}
	u := functest.Read[wire.UpdatedUser](patchUser(root.Token, "ada", `{"state":"deactivated"}`).Send(t, d.handler), http.StatusOK)
	if u.TokenCount != nil {
		t.Errorf("got %d tokens, want null", *u.TokenCount)
	}
	storetest.Change(t, d.project, "tokens/"+string(token.ID), nil)
	d.remove(root.Token, "users/ada").Is(http.StatusOK)
	d.remove(root.Token, "users/%ff").Refused(http.StatusNotFound, "not_found")
}

func TestEndSessions(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	root := d.signIn("root", adminPassword)
	for name, end := range map[string]func(own string) functest.Answer{
		"by an admin": func(string) functest.Answer { return d.remove(root.Token, "users/ada/sessions") },
		"by the user": func(own string) functest.Answer { return d.remove(own, "session/all") },
	} {
		one, two := d.signIn("ada", adaPassword), d.signIn("ada", adaPassword)
		a := end(one.Token)
		if left := functest.Read[wire.RemainingTokens](a, http.StatusOK); left.TokenCount == nil || *left.TokenCount != 0 {
			t.Errorf("%s: got %+v, want no tokens", name, left)
		}
		if cleared := strings.Contains(a.Header.Get("Set-Cookie"), "Max-Age=0"); cleared != (name == "by the user") {
			t.Errorf("%s: got the cookie %q", name, a.Header.Get("Set-Cookie"))
		}
		for _, s := range []wire.OpenedSession{one, two} {
			whoAmI(functest.Bearer(s.Token)).Send(t, d.handler).Refused(http.StatusUnauthorized, "unauthenticated")
		}
	}
	d.signIn("ada", adaPassword)
	whoAmI(functest.Bearer(root.Token)).Send(t, d.handler).Is(http.StatusOK)
	own := d.signIn("ada", adaPassword)
	functest.Call{Method: "DELETE", Path: "/api/v1/session/all", Header: cookie(own.Token, "")}.Send(t, d.handler).Refused(http.StatusForbidden, "csrf_required")
	if n := len(d.audited(t, audit.EndSessions)); n != 2 {
		t.Errorf("got %d records, want 2", n)
	}
}

func TestLastSignIn(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	last := func() time.Time {
		t.Helper()
		u, err := d.store.User(t.Context(), "root")
		check.OK(t, err)
		return u.LastSignIn
	}
	if got := last(); !got.IsZero() {
		t.Errorf("before the first sign-in: got %s", got)
	}
	d.trySignIn("root", "wrong password")
	if got := last(); !got.IsZero() {
		t.Errorf("after a failed sign-in: got %s", got)
	}
	first := d.clock.Now().UTC().Truncate(time.Microsecond)
	for _, tt := range []struct {
		after time.Duration
		want  time.Time
	}{{0, first}, {time.Minute, first}, {4 * time.Minute, first.Add(5 * time.Minute)}} {
		d.clock.Advance(tt.after)
		d.signIn("root", adminPassword)
		if got := last(); !got.Equal(tt.want) {
			t.Errorf("%s later: got %s, want %s", tt.after, got, tt.want)
		}
	}
}
