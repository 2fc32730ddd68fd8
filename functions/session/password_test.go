package session

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

const newPassword = "difference engine 1822"

func change(current, password string) string {
	body := wire.ChangePassword{Password: &password}
	if current != "" {
		body.CurrentPassword = &current
	}
	return marshal(body)
}

func setPassword(token, username, body string) functest.Call {
	return functest.Call{Method: "PUT", Path: "/api/v1/users/" + username + "/password", Body: body, Header: functest.Bearer(token)}
}

func TestChangeOwnPassword(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.addUser("ada", adaPassword)
	one, two, root := d.signIn("ada", adaPassword), d.signIn("ada", adaPassword), d.signIn("root", adminPassword)
	setPassword(one.Token, "ada", change(adaPassword, newPassword)).Send(t, d.handler).Is(http.StatusNoContent)
	for _, s := range []wire.OpenedSession{one, two} {
		whoAmI(functest.Bearer(s.Token)).Send(t, d.handler).Refused(401, "unauthenticated")
	}
	whoAmI(functest.Bearer(root.Token)).Send(t, d.handler).Is(http.StatusOK)
	d.trySignIn("ada", adaPassword).Refused(401, "invalid_credentials")
	again := d.signIn("ada", newPassword)
	whoAmI(functest.Bearer(again.Token)).Send(t, d.handler).Is(http.StatusOK)
}

func TestAdminResetsPassword(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	ada, root := d.signIn("ada", adaPassword), d.signIn("root", adminPassword)
	setPassword(root.Token, "ada", change("", newPassword)).Send(t, d.handler).Is(http.StatusNoContent)
	whoAmI(functest.Bearer(ada.Token)).Send(t, d.handler).Refused(401, "unauthenticated")
	d.signIn("ada", newPassword)
}

func TestChangePasswordRefuses(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	d.addUser("bob", adaPassword)
	ada, root := d.signIn("ada", adaPassword), d.signIn("root", adminPassword)
	before, err := d.store.User(t.Context(), "ada")
	check.OK(t, err)
	tests := []struct {
		name, token, username, body string
		status                      int
		code                        problem.Code
	}{
		{"a wrong current password", ada.Token, "ada", change("wrong password", newPassword), 401, "invalid_credentials"},
		{"no current password", ada.Token, "ada", change("", newPassword), 422, "missing_field"},
		{"an admin's own without the current", root.Token, "root", change("", newPassword), 422, "missing_field"},
		{"somebody else's", ada.Token, "bob", change(adaPassword, newPassword), 403, "forbidden"},
		{"nobody's", ada.Token, "nobody", change(adaPassword, newPassword), 403, "forbidden"},
		{"nobody's, by an admin", root.Token, "nobody", change("", newPassword), 404, "not_found"},
		{"an invalid name, by an admin", root.Token, "No%2Fbody", change("", newPassword), 404, "not_found"},
		{"a short one", ada.Token, "ada", change(adaPassword, "short"), 422, "invalid_password"},
		{"a long one", ada.Token, "ada", change(adaPassword, strings.Repeat("a", 257)), 422, "invalid_password"},
		{"none", ada.Token, "ada", `{"current_password":"x"}`, 422, "missing_field"},
		{"a number", ada.Token, "ada", `{"password":123456789012}`, 400, "wrong_type"},
		{"an unknown field", ada.Token, "ada", `{"password":"x","admin":true}`, 400, "unknown_field"},
		{"half of it", ada.Token, "ada", `{"password":`, 400, "malformed_json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			setPassword(tt.token, tt.username, tt.body).Send(t, d.handler).Refused(tt.status, tt.code)
		})
	}
	after, err := d.store.User(t.Context(), "ada")
	check.OK(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a rejected change was stored (-before +after):\n%s", diff)
	}
}

func TestChangePasswordIsThrottled(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	ada := d.signIn("ada", adaPassword)
	for range d.cfg.Burst {
		setPassword(ada.Token, "ada", change("wrong password", newPassword)).Send(t, d.handler).Refused(401, "invalid_credentials")
	}
	setPassword(ada.Token, "ada", change(adaPassword, newPassword)).Send(t, d.handler).Refused(429, "rate_limited")
	other := d.signIn("ada", adaPassword) // the owner can still sign in and change it
	setPassword(other.Token, "ada", change(adaPassword, newPassword)).Send(t, d.handler).Is(http.StatusNoContent)
}

func TestConcurrentPasswordChanges(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	ada := d.signIn("ada", adaPassword)
	passwords := []string{newPassword + "0", newPassword + "1", newPassword + "2", newPassword + "3"}
	answers := make([]functest.Answer, len(passwords))
	var wg sync.WaitGroup
	for i, p := range passwords {
		wg.Go(func() { answers[i] = setPassword(ada.Token, "ada", change(adaPassword, p)).Send(t, d.handler) })
	}
	wg.Wait()
	won := 0
	for i, a := range answers {
		switch a.Status {
		case http.StatusNoContent:
			won++
			d.signIn("ada", passwords[i])
		case http.StatusConflict, http.StatusUnauthorized:
		default:
			t.Errorf("change %d: %d %s", i, a.Status, a.Body)
		}
	}
	if won != 1 {
		t.Errorf("successful changes: got %d, want 1", won)
	}
}
