package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) adminGroup() *cobra.Command {
	return a.group("admin", "Manage users and reserved hosts (admins only)", a.createUser(), a.listUsers(), a.resetPassword(),
		a.deactivateUser(), a.activateUser(), a.removeUser(), a.endSessions(), a.grantAdmin(), a.revokeAdmin(), a.listHosts(), a.releaseHost())
}

func (a *application) listHosts() *cobra.Command {
	return a.command(onServer, &cobra.Command{
		Use: "list-hosts", Short: "List reserved hosts", SuggestFor: []string{"hosts"},
		Long:    `List the hosts that apps no longer use. Each is reserved for its project for 30 days.`,
		Example: `  sluice admin list-hosts`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "reserved hosts", w.HostReservations(ctx), []render.Column{
			{Name: "HOST", Whole: true}, {Name: "PROJECT"}, {Name: "APP", Rank: 1}, {Name: "UNTIL"},
		}, func(h wire.HostReservation) []render.Cell {
			return render.Plainly(h.Host, h.Project, h.App, stamp(h.Until))
		})
	})
}

func (a *application) releaseHost() *cobra.Command {
	return a.removal(onServer, requireName, &cobra.Command{
		Use: "release-host HOST", Short: "Release a reserved host",
		Long: `Release a reserved host before its 30 days are over. Any project can use it then. Clients of
the previous app may still send their API keys to the host.`,
		Example: `  sluice admin release-host shop.example.com`,
	}, func(w work) removal {
		return removal{
			question: "Release host " + w.args[0] + " for all projects?",
			do:       func(ctx context.Context) error { return w.ReleaseHost(ctx, w.args[0]) },
			done:     "Host " + w.args[0] + " released.",
		}
	})
}

func (a *application) createUser() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create-user USERNAME", Short: "Create a user", SuggestFor: []string{"adduser", "add-user"},
		Long: `Create a user. Only admins can do this. The session function creates the first admin of an
installation from its environment variables at its first start.

The command prompts for the password without showing it. In a script, use --password-stdin.`,
		Example: `  sluice admin create-user ada
  openssl rand -base64 18 | tee ada.txt | sluice admin create-user ada --admin --password-stdin`,
	}
	admin := cmd.Flags().Bool("admin", false, "make the user an admin, who is an owner of every project")
	fromStdin := passwordStdin(cmd)
	return a.command(onServer, cmd, showResult(func(u wire.User) error {
		return a.show(u, func(s render.Screen) error { return s.Line("User %s created.", u.Username) })
	}, func(ctx context.Context, w work) (wire.User, error) {
		password, err := a.newPassword(ctx, w.args[0], *fromStdin)
		if err != nil {
			return wire.User{}, err
		}
		return w.CreateUser(ctx, w.args[0], password, *admin)
	}))
}

func (a *application) listUsers() *cobra.Command {
	return a.command(onServer, &cobra.Command{
		Use: "list-users", Short: "List all users", SuggestFor: []string{"users", "list"},
		Example: `  sluice admin list-users`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "users", w.Users(ctx), []render.Column{{Name: "USER", Whole: true}, {Name: "ADMIN"}, {Name: "STATE"}, {Name: "LAST SIGN-IN", Rank: 1}},
			func(u wire.User) []render.Cell {
				last := "never"
				if u.LastSignIn != nil {
					last = minute(*u.LastSignIn)
				}
				cells := render.Plainly(u.Username, yesNo(u.Admin), u.State, last)
				cells[2].Tone = statusTone(u.State)
				return cells
			})
	})
}

// userChange is a change of a user. NAME stands for the username.
type userChange struct {
	guard          guard
	question, done string
	do             func(ctx context.Context, w work, username string) (result any, left wire.RemainingTokens, err error)
	leaves         bool // the command lists the user's service tokens
}

func patchUser(change wire.UpdateUser) func(context.Context, work, string) (any, wire.RemainingTokens, error) {
	return func(ctx context.Context, w work, username string) (any, wire.RemainingTokens, error) {
		u, err := w.UpdateUser(ctx, username, change)
		return u, u.RemainingTokens, err
	}
}

func (a *application) userChange(c userChange, cmd *cobra.Command) *cobra.Command {
	confirm := a.confirmation(cmd, c.guard)
	return a.command(onServer, cmd, func(ctx context.Context, w work) error {
		username := w.args[0]
		if err := confirm.ask(ctx, strings.ReplaceAll(c.question, "NAME", username), username); err != nil {
			return err
		}
		result, left, err := c.do(ctx, w, username)
		if err != nil {
			return err
		}
		return a.show(result, func(s render.Screen) error {
			if err := s.Line("%s", strings.ReplaceAll(c.done, "NAME", username)); err != nil || !c.leaves {
				return err
			}
			return a.showRemaining(s, username, left)
		})
	})
}

func (a *application) showRemaining(s render.Screen, username string, left wire.RemainingTokens) error {
	n := left.TokenCount
	switch {
	case n == nil:
		a.note("The list of service tokens that %s created is unavailable. They stay valid.", username)
		return nil
	case *n == 0:
		return nil
	}
	a.note("Service tokens that %s created stay valid. Revoke the tokens that no program needs.", username)
	rows := make([][]render.Cell, len(left.Tokens))
	for i, t := range left.Tokens {
		rows[i] = render.Plainly(t.Name, t.Project, t.Role, expiryText(&t.ExpiresAt), t.ID)
	}
	columns := []render.Column{{Name: "TOKEN", Whole: true}, {Name: "PROJECT"}, {Name: "ROLE"}, {Name: "EXPIRES"}, {Name: "ID", Rank: 1}}
	if err := s.Table(columns, rows); err != nil {
		return err
	}
	if more := *n - len(rows); more > 0 {
		a.note("Service tokens not listed here: %d.", more)
	}
	return nil
}

func (a *application) deactivateUser() *cobra.Command {
	return a.userChange(userChange{
		question: "Deactivate user NAME and end all sessions?", done: "User NAME deactivated. All sessions have ended.", leaves: true,
		do: patchUser(wire.UpdateUser{State: wire.Some(string(user.Deactivated))}),
	}, &cobra.Command{
		Use: "deactivate-user USERNAME", Short: "Deactivate a user and end all sessions", SuggestFor: []string{"deactivate", "disable-user"},
		Long: `Deactivate a user. All sessions of the user end immediately, and the user cannot sign in until
an admin activates the user again. The user keeps the roles in projects.

The command lists the service tokens that the user created. They stay valid.`,
		Example: `  sluice admin deactivate-user bob`,
	})
}

func (a *application) activateUser() *cobra.Command {
	return a.userChange(userChange{
		question: "Activate user NAME, with the same password and roles?", done: "User NAME activated.",
		do: patchUser(wire.UpdateUser{State: wire.Some(string(user.Active))}),
	}, &cobra.Command{
		Use: "activate-user USERNAME", Short: "Activate a deactivated user", SuggestFor: []string{"activate", "enable-user"},
		Long:    `Activate a deactivated user, who can then sign in again with the same password and roles.`,
		Example: `  sluice admin activate-user bob`,
	})
}

func (a *application) removeUser() *cobra.Command {
	return a.userChange(userChange{
		guard: requireName, question: "Remove user NAME from all projects permanently?", done: "User NAME removed. All sessions have ended.", leaves: true,
		do: func(ctx context.Context, w work, username string) (any, wire.RemainingTokens, error) {
			left, err := w.RemoveUser(ctx, username)
			return left, left, err
		},
	}, &cobra.Command{
		Use: "remove-user USERNAME", Short: "Remove a user permanently", SuggestFor: []string{"delete-user", "remove"},
		Long: `Remove a user from all projects, and delete the user. All sessions of the user end immediately.
Keys and deployments that the user created remain. The command fails if a project would have
no active owner, or if no active admin would remain.

The command lists the service tokens that the user created. They stay valid.`,
		Example: `  sluice admin remove-user bob`,
	})
}

func (a *application) endSessions() *cobra.Command {
	return a.userChange(userChange{
		question: "End all sessions of user NAME?", done: "All sessions of NAME have ended.", leaves: true,
		do: func(ctx context.Context, w work, username string) (any, wire.RemainingTokens, error) {
			left, err := w.EndSessions(ctx, username)
			return left, left, err
		},
	}, &cobra.Command{
		Use: "end-sessions USERNAME", Short: "End all sessions of a user",
		Long: `End all sessions of a user immediately. The user can sign in again.

The command lists the service tokens that the user created. They stay valid.`,
		Example: `  sluice admin end-sessions bob`,
	})
}

func (a *application) grantAdmin() *cobra.Command {
	return a.userChange(userChange{
		question: "Grant admin rights to NAME?", done: "User NAME is an admin.",
		do: patchUser(wire.UpdateUser{Admin: wire.Some(true)}),
	}, &cobra.Command{
		Use: "grant-admin USERNAME", Short: "Grant admin rights to a user",
		Long:    `Grant admin rights to a user. Admins are owners of all projects and manage users.`,
		Example: `  sluice admin grant-admin ada`,
	})
}

func (a *application) revokeAdmin() *cobra.Command {
	return a.userChange(userChange{
		question: "Revoke the admin rights of NAME?", done: "User NAME is no longer an admin.", leaves: true,
		do: patchUser(wire.UpdateUser{Admin: wire.Some(false)}),
	}, &cobra.Command{
		Use: "revoke-admin USERNAME", Short: "Revoke the admin rights of a user",
		Long: `Revoke the admin rights of a user, from the next request on. The user keeps the roles in
projects. The command fails if no active admin would remain.

The command lists the service tokens that the user created. They stay valid.`,
		Example: `  sluice admin revoke-admin ada`,
	})
}

func (a *application) resetPassword() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reset-password USERNAME", Short: "Set another user's password",
		Long:    `Set another user's password and end all sessions of that user. Only admins can do this.`,
		Example: `  sluice admin reset-password ada`,
	}
	fromStdin := passwordStdin(cmd)
	return a.command(onServer, cmd, func(ctx context.Context, w work) error {
		password, err := a.newPassword(ctx, w.args[0], *fromStdin)
		if err != nil {
			return err
		}
		if err := w.ResetPassword(ctx, w.args[0], password); err != nil {
			return err
		}
		return a.done("Password of %s set. All sessions of this user have ended.", w.args[0])
	})
}

func (a *application) password() *cobra.Command {
	return a.command(onServer, &cobra.Command{
		Use: "password", Short: "Change your own password",
		Long: `Change your own password. This ends all of your sessions; sign in again afterwards. The command
prompts for the current and the new password. In a script, an admin can set a password with
"sluice admin reset-password".`,
		Example: `  sluice password`,
	}, func(ctx context.Context, w work) error {
		if !a.term.Interactive {
			return usage("no terminal: this command must prompt for the passwords")
		}
		who, err := w.WhoAmI(ctx)
		if err != nil {
			return err
		}
		current, err := a.readPassword(ctx, "Current password:", false)
		if err != nil {
			return err
		}
		next, err := a.newPassword(ctx, who.User.Username, false)
		if err != nil {
			return err
		}
		if err := w.ChangePassword(ctx, who.User.Username, current, next); err != nil {
			return err
		}
		return a.done(`Password changed. All your sessions have ended. Sign in again with "sluice login".`)
	})
}

func passwordStdin(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("password-stdin", false, "read the password from standard input")
}

func (a *application) readPassword(ctx context.Context, question string, fromStdin bool) (string, error) {
	if fromStdin {
		p, err := a.term.ReadSecret()
		if err == nil && p == "" {
			err = usage("standard input contains no password")
		}
		return p, err
	}
	p, err := a.term.AskPassword(ctx, oneLine(question)+" ")
	if errors.Is(err, terminal.ErrNobody) {
		return "", usage("no terminal: pass the password with --password-stdin")
	}
	if errors.Is(err, io.EOF) {
		return "", failed("aborted", "No password entered. Nothing was changed.")
	}
	return p, err
}

// newPassword reads a new password. It prompts twice, because the input is not shown.
func (a *application) newPassword(ctx context.Context, username string, fromStdin bool) (string, error) {
	p, err := a.readPassword(ctx, "New password for "+username+":", fromStdin)
	if err != nil || fromStdin {
		return p, err
	}
	again, err := a.readPassword(ctx, "Repeat the password:", false)
	if err != nil {
		return "", err
	}
	if p != again {
		return "", failed("aborted", "The passwords do not match. Nothing was changed.")
	}
	return p, nil
}

func (a *application) askUsername(ctx context.Context, last string) (string, error) {
	question := "Username: "
	if last != "" {
		question = "Username [" + oneLine(last) + "]: "
	}
	name, err := a.term.Ask(ctx, question)
	switch {
	case errors.Is(err, terminal.ErrNobody) && last != "":
		return last, nil
	case errors.Is(err, terminal.ErrNobody):
		return "", usage("no terminal: pass --username")
	case err != nil && !errors.Is(err, io.EOF):
		return "", err
	case name == "" && last == "":
		return "", usage("no username: pass --username")
	case name == "":
		return last, nil
	}
	return name, nil
}
