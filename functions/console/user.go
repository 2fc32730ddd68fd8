package console

import (
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/wire"
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

// userAction is a change of a user. NAME stands for the username.
type userAction struct {
	title, lead, button string
	danger              bool
	done                notice
	do                  func(r *request, username string) (wire.RemainingTokens, error)
	leaves              bool // the next page lists the user's service tokens
}

func patchUser(change wire.UpdateUser) func(r *request, username string) (wire.RemainingTokens, error) {
	return func(r *request, username string) (wire.RemainingTokens, error) {
		u, err := r.api.UpdateUser(r.Context(), username, change)
		return u.RemainingTokens, err
	}
}

const tokensStay = " Service tokens that NAME created stay valid. If there are any, the next page lists them."

func userActions() map[string]userAction {
	return map[string]userAction{
		"deactivate": {
			title: "Deactivate NAME?", button: "Deactivate NAME", danger: true, done: noticeUserDeactivated, leaves: true,
			lead: "NAME is signed out everywhere and cannot sign in until an admin activates the user again. Roles, keys and deployments remain." + tokensStay,
			do:   patchUser(wire.UpdateUser{State: wire.Some(string(user.Deactivated))}),
		},
		"activate": {
			title: "Activate NAME?", button: "Activate NAME", done: noticeUserActivated,
			lead: "NAME can sign in again with the same password and the same roles.",
			do:   patchUser(wire.UpdateUser{State: wire.Some(string(user.Active))}),
		},
		"grant-admin": {
			title: "Grant admin rights to NAME?", button: "Grant admin rights", danger: true, done: noticeAdminGranted,
			lead: "NAME becomes an owner of all projects and can manage users, including you.",
			do:   patchUser(wire.UpdateUser{Admin: wire.Some(true)}),
		},
		"revoke-admin": {
			title: "Revoke the admin rights of NAME?", button: "Revoke admin rights", danger: true, done: noticeAdminRevoked, leaves: true,
			lead: "From the next request on, NAME can access only projects of which NAME is a member." + tokensStay,
			do:   patchUser(wire.UpdateUser{Admin: wire.Some(false)}),
		},
		"end-sessions": {
			title: "End all sessions of NAME?", button: "End sessions", danger: true, done: noticeSessionsEnded, leaves: true,
			lead: "NAME is signed out everywhere, and can sign in again." + tokensStay,
			do: func(r *request, username string) (wire.RemainingTokens, error) {
				return r.api.EndSessions(r.Context(), username)
			},
		},
		"remove": {
			title: "Remove NAME?", button: "Remove NAME", danger: true, done: noticeUserRemoved, leaves: true,
			lead: "NAME is signed out everywhere and loses all roles. This cannot be undone. Keys and deployments remain." + tokensStay,
			do: func(r *request, username string) (wire.RemainingTokens, error) {
				return r.api.RemoveUser(r.Context(), username)
			},
		},
	}
}

func (r *request) userAction() (a userAction, username string, err error) {
	username = r.PathValue("username")
	a, ok := userActions()[r.PathValue("action")]
	if !ok {
		return a, "", notFound()
	}
	fill := strings.NewReplacer("NAME", username).Replace
	a.title, a.lead, a.button = fill(a.title), fill(a.lead), fill(a.button)
	return a, username, nil
}

func askUserAction(r *request, f view.Form) error {
	a, username, err := r.userAction()
	if err != nil {
		return err
	}
	return r.confirm("", view.Confirmation{
		Title: a.title, Lead: a.lead, Danger: a.danger, Form: f,
		Action: at("users", username, r.PathValue("action")), Button: a.button, Back: at("users"),
	})
}

type remainingTokensPage struct {
	Username, Done, Back string

	Tokens []wire.RemainingToken
	More   int
	Unread bool
	Own    bool // the user's own rights have changed
}

func changeUser(r *request) error {
	a, username, err := r.userAction()
	if err != nil {
		return err
	}
	data, err := r.layout()
	if err != nil {
		return err
	}
	p := remainingTokensPage{Username: username, Done: a.done.text(), Back: at("users"), Own: data.User.Username == username}
	if p.Own {
		p.Back = at("projects")
	}
	left, err := a.do(r, username)
	switch {
	case isNotFound(err):
		return r.done(p.Back, noticeNoUser)
	case err != nil:
		return r.again(err, askUserAction)
	case !a.leaves || left.TokenCount != nil && *left.TokenCount == 0:
		return r.done(p.Back, a.done)
	}
	p.Tokens, p.Unread = left.Tokens, left.TokenCount == nil
	if !p.Unread {
		p.More = *left.TokenCount - len(left.Tokens)
	}
	return r.show("users_tokens", page{Title: "Service tokens of " + username}, p)
}

func askEndOwnSessions(r *request, f view.Form) error {
	return r.confirm("", view.Confirmation{
		Title: "End all your sessions?",
		Lead:  "You are signed out everywhere, including here. Service tokens that you created stay valid. If someone else knows your password, change it too.",
		Form:  f, Danger: true, Action: at("account", "end-sessions"), Button: "End all sessions", Back: at("projects"),
	})
}

func endOwnSessions(r *request) error {
	if _, err := r.api.EndOwnSessions(r.Context()); err != nil {
		return r.again(err, askEndOwnSessions)
	}
	identity.ClearCookie(r.w)
	return r.done(signInPath, noticeOwnSessionsEnded)
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
