package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) adminGroup() *cobra.Command {
	return a.group("admin", "Users of the installation, for admins", a.createUser(), a.listUsers(), a.resetPassword())
}

func (a *application) createUser() *cobra.Command {
	var admin, fromStdin bool
	cmd := &cobra.Command{
		Use: "create-user USERNAME", Short: "Create someone who can sign in", SuggestFor: []string{"adduser", "add-user"},
		Long: `Create someone who can sign in; you have to be an admin. The first admin of an
installation is made by the session function from its environment at its first start.
The password is asked for without being shown; in a script, pass it with
--password-stdin.`,
		Example: `  sluice admin create-user ada
  openssl rand -base64 18 | tee ada.txt | sluice admin create-user ada --admin --password-stdin`,
		Args: takes("USERNAME"),
	}
	cmd.Flags().BoolVar(&admin, "admin", false, "make the user an admin: owner of every project")
	passwordStdin(cmd, &fromStdin)
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		password, err := a.newPassword(ctx, args[0], fromStdin)
		if err != nil {
			return err
		}
		u, err := c.CreateUser(ctx, args[0], password, admin)
		if err != nil {
			return err
		}
		return a.show(u, func(s render.Screen) error { return s.Line("User %s is created.", u.Username) })
	})
	return cmd
}

func (a *application) listUsers() *cobra.Command {
	return &cobra.Command{
		Use: "list-users", Short: "List everyone who can sign in", SuggestFor: []string{"users", "list"},
		Example: `  sluice admin list-users`,
		Args:    takes(),
		RunE: a.signedIn(func(ctx context.Context, c *client.Client, _ []string) error {
			return showList(a, "users", c.Users(ctx), []render.Column{{Name: "USER", Whole: true}, {Name: "ADMIN"}},
				func(u wire.User) []render.Cell { return render.Plainly(u.Username, yesNo(u.Admin)) })
		}),
	}
}

func (a *application) resetPassword() *cobra.Command {
	var fromStdin bool
	cmd := &cobra.Command{
		Use: "reset-password USERNAME", Short: "Set somebody else's password",
		Long:    `Set somebody else's password, which ends all of their sessions; you have to be an admin.`,
		Example: `  sluice admin reset-password ada`,
		Args:    takes("USERNAME"),
	}
	passwordStdin(cmd, &fromStdin)
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		password, err := a.newPassword(ctx, args[0], fromStdin)
		if err != nil {
			return err
		}
		if err := c.ResetPassword(ctx, args[0], password); err != nil {
			return err
		}
		return a.done("The password of %s is set; their sessions are ended.", args[0])
	})
	return cmd
}
