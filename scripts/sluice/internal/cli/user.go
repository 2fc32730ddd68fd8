package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) adminGroup() *cobra.Command {
	return a.group("admin", "Manage users and reserved hosts (admins only)", a.createUser(), a.listUsers(), a.resetPassword(), a.listHosts(), a.releaseHost())
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
		return showList(a, "users", w.Users(ctx), []render.Column{{Name: "USER", Whole: true}, {Name: "ADMIN"}},
			func(u wire.User) []render.Cell { return render.Plainly(u.Username, yesNo(u.Admin)) })
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
