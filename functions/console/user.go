package console

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) users() {
	m.page("/users", listUsers)
	m.page("/new-user", func(v *visit) error { return newUser(v, form{}) })
	m.change("/users", createUser)
	m.page("/users/{username}/password", func(v *visit) error { return askPassword(v, form{}) })
	m.change("/users/{username}/password", resetPassword)
}

func (m routes) accounts() {
	m.page("/account", func(v *visit) error { return account(v, form{}) })
	m.change("/account", changePassword)
}

type usersPage struct {
	Users  []wire.User
	Paging paging
}

func listUsers(v *visit) error {
	list, err := v.api.UsersPage(v.ctx, v.asked())
	if err != nil {
		return err
	}
	return v.show("users", sheet{Title: "Users"}, usersPage{Users: list.Items, Paging: v.paging(list.NextPageToken)})
}

// passwordHint says what passwords are like.
const passwordHint = "12 to 256 characters." //nolint:gosec // says what one is like

func newUser(v *visit, f form) error {
	return v.ask("", simple{
		Title: "New user", Action: at("users"), Button: "Create user", Back: at("users"), Form: f,
		Lead: "Users see nothing until an owner of a project makes them a member. Admins are owner everywhere and manage users.",
		Inputs: []input{
			f.Text("username", "Username", "").Need(),
			f.Text("password", "Password", passwordHint+" Hand it over by a safe way; the user can change it.").As("password").Need().Auto("new-password"),
			f.Select("kind", "Kind", "", []option{{Value: "user", Label: "User"}, {Value: "admin", Label: "Admin"}}).Need(),
		},
	})
}

func passwordFields() map[string]string {
	return map[string]string{
		"invalid_name": "username", "already_exists": "username", "invalid_password": "password", "invalid_credentials": "current",
	}
}

func createUser(v *visit) error {
	_, err := v.api.CreateUser(v.ctx, v.typed("username"), v.typed("password"), v.typed("kind") == "admin")
	if err != nil {
		f, ok := v.refused(err, passwordFields())
		if !ok {
			return err
		}
		return newUser(v, f)
	}
	return v.done(at("users"), noticeUserCreated)
}

func askPassword(v *visit, f form) error {
	username := v.r.PathValue("username")
	own, err := v.frame()
	if err != nil {
		return err
	}
	if own.User.Username == username {
		return v.goTo(at("account"))
	}
	return v.ask("", simple{
		Title: "Set the password of " + username, Action: at("users", username, "password"), Button: "Set the password", Back: at("users"), Form: f,
		Lead:   "All sessions of " + username + " end at once.",
		Inputs: []input{f.Text("password", "New password", passwordHint).As("password").Need().Auto("new-password")},
	})
}

func resetPassword(v *visit) error {
	if err := v.api.ResetPassword(v.ctx, v.r.PathValue("username"), v.typed("password")); err != nil {
		f, ok := v.refused(err, passwordFields())
		if !ok {
			return err
		}
		return askPassword(v, f)
	}
	return v.done(at("users"), noticePasswordReset)
}

func account(v *visit, f form) error {
	return v.ask("", simple{
		Title: "Change your password", Action: at("account"), Button: "Change the password", Back: at("projects"), Form: f,
		Lead: "All of your sessions end at once, this one too: you sign in again with the new password.",
		Inputs: []input{
			f.Text("current", "Current password", "").As("password").Need().Auto("current-password"),
			f.Text("password", "New password", passwordHint).As("password").Need().Auto("new-password"),
		},
	})
}

func changePassword(v *visit) error {
	f, err := v.frame()
	if err != nil {
		return err
	}
	err = v.api.ChangePassword(v.ctx, f.User.Username, v.typed("current"), v.typed("password"))
	if err != nil {
		again, ok := v.refused(err, passwordFields())
		if !ok {
			return err
		}
		if again.Refusal.Code == "invalid_credentials" {
			again.Refusal.Message, again.Refusal.Status = "That is not your current password.", http.StatusUnprocessableEntity
		}
		return account(v, again)
	}
	identity.ClearCookie(v.w)
	return v.done(signInPath, noticePasswordChanged)
}
