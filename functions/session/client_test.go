package session

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

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
	if diff := cmp.Diff([]wire.User{{Username: "ada"}, {Username: "root", Admin: true}}, users); diff != "" || err != nil {
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
	if err := root.SignOut(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := root.WhoAmI(t.Context()); !client.HasCode(err, "unauthenticated") {
		t.Errorf("after signing out: got %v", err)
	}
}
