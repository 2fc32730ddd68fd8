package console

import (
	"net/http"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/identity"
)

func listUsers(r *request) error {
	return showList(r, "users", page{Title: "Users"}, r.api.UsersPage)
}

const passwordHint = "12 to 256 characters." //nolint:gosec // not a password

func newUser(r *request, f view.Form) error {
	return r.ask("", view.FormPage{
		Title: "New user", Action: at("users"), Button: "Create user", Back: at("users"), Form: f,
		Lead: "A user has no access until an owner of a project adds them as a member. Admins are owners of all projects and manage users.",
		Inputs: []view.Input{
			f.Text("username", "Username", "").Require(),
			f.Text("password", "Password", passwordHint+" Send it to the user over a secure channel; the user can change it.").WithType("password").Require().Autocomplete("new-password"),
			f.Select("kind", "Kind", "", []view.Option{{Value: "user", Label: "User"}, {Value: "admin", Label: "Admin"}}).Require(),
		},
	})
}

func createUser(r *request) error {
	_, err := r.api.CreateUser(r.Context(), r.PostForm.Get("username"), r.PostForm.Get("password"), r.PostForm.Get("kind") == "admin")
	if err != nil {
		return r.again(err, newUser)
	}
	return r.done(at("users"), noticeUserCreated)
}

func askPassword(r *request, f view.Form) error {
	username := r.PathValue("username")
	data, err := r.layout()
	if err != nil {
		return err
	}
	if data.User.Username == username {
		return r.redirect(at("account"))
	}
	return r.ask("", view.FormPage{
		Title: "Password of " + username, Action: at("users", username, "password"), Button: "Set password", Back: at("users"), Form: f,
		Lead:   "All sessions of " + username + " end immediately.",
		Inputs: []view.Input{f.Text("password", "New password", passwordHint).WithType("password").Require().Autocomplete("new-password")},
	})
}

func resetPassword(r *request) error {
	if err := r.api.ResetPassword(r.Context(), r.PathValue("username"), r.PostForm.Get("password")); err != nil {
		return r.again(err, askPassword)
	}
	return r.done(at("users"), noticePasswordReset)
}

func account(r *request, f view.Form) error {
	return r.ask("", view.FormPage{
		Title: "Your password", Action: at("account"), Button: "Change password", Back: at("projects"), Form: f,
		Lead: "All your sessions end immediately, including this one. Sign in again with the new password.",
		Inputs: []view.Input{
			f.Text("current_password", "Current password", "").WithType("password").Require().Autocomplete("current-password"),
			f.Text("password", "New password", passwordHint).WithType("password").Require().Autocomplete("new-password"),
		},
	})
}

func changePassword(r *request) error {
	f, err := r.layout()
	if err != nil {
		return err
	}
	err = r.api.ChangePassword(r.Context(), f.User.Username, r.PostForm.Get("current_password"), r.PostForm.Get("password"))
	if err != nil {
		return r.again(err, func(r *request, f view.Form) error {
			if f.Err.Code == "invalid_credentials" {
				f.Err.Field, f.Err.Status = "current_password", http.StatusUnprocessableEntity
				f.Err.Message = "That is not your current password."
			}
			return account(r, f)
		})
	}
	identity.ClearCookie(r.w)
	return r.done(signInPath, noticePasswordChanged)
}
