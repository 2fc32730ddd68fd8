package session

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// lastSignIn returns the last sign-in of the last user.
func lastSignIn(users []wire.User) *time.Time {
	if len(users) == 0 {
		return nil
	}
	return users[len(users)-1].LastSignIn
}

func TestClientSpeaksTheSameLanguage(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	srv := httptest.NewServer(d.handler)
	t.Cleanup(srv.Close)
	anonymous := client.New(srv.URL)
	if _, err := anonymous.WhoAmI(t.Context()); !client.HasCode(err, "unauthenticated") {
		t.Errorf("without a session: got %v", err)
	}
	s, err := anonymous.SignIn(t.Context(), "root", adminPassword)
	check.OK(t, err)
	root := anonymous.WithToken(s.Token)
	if _, err := root.CreateUser(t.Context(), "ada", adaPassword, false); err != nil {
		t.Fatal(err)
	}
	users, err := client.Collect(root.Users(t.Context()))
	if diff := cmp.Diff([]wire.User{{Username: "ada", State: "active"}, {Username: "root", Admin: true, State: "active", LastSignIn: lastSignIn(users)}}, users); diff != "" || err != nil {
		t.Errorf("users: %v (-want +got):\n%s", err, diff)
	}
	if err := root.ResetPassword(t.Context(), "ada", newPassword); err != nil {
		t.Error(err)
	}
	a, err := anonymous.SignIn(t.Context(), "ada", newPassword)
	check.OK(t, err)
	ada := anonymous.WithToken(a.Token)
	if err := ada.ChangePassword(t.Context(), "ada", newPassword, adaPassword); err != nil {
		t.Error(err)
	}
	if _, err := ada.WhoAmI(t.Context()); !client.HasCode(err, "unauthenticated") {
		t.Errorf("after the password change: got %v", err)
	}
	again, err := anonymous.SignIn(t.Context(), "ada", adaPassword)
	check.OK(t, err)
	ada = anonymous.WithToken(again.Token)
	if left, err := ada.EndOwnSessions(t.Context()); err != nil || left.TokenCount == nil || *left.TokenCount != 0 {
		t.Errorf("end own sessions: got %+v, %v", left, err)
	}
	if _, err := ada.WhoAmI(t.Context()); !client.HasCode(err, "unauthenticated") {
		t.Errorf("after ending the own sessions: got %v", err)
	}
	if u, err := root.UpdateUser(t.Context(), "ada", wire.UpdateUser{State: wire.Some("deactivated")}); err != nil || u.State != "deactivated" {
		t.Errorf("deactivated: got %+v, %v", u, err)
	}
	if _, err := root.EndSessions(t.Context(), "ada"); err != nil {
		t.Error(err)
	}
	if _, err := root.RemoveUser(t.Context(), "ada"); err != nil {
		t.Error(err)
	}
	if _, err := root.User(t.Context(), "ada"); !client.HasCode(err, "not_found") {
		t.Errorf("after the removal: got %v", err)
	}
	if err := root.SignOut(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := root.WhoAmI(t.Context()); !client.HasCode(err, "unauthenticated") {
		t.Errorf("after signing out: got %v", err)
	}
}
