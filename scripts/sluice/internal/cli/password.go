package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
)

func passwordStdin(cmd *cobra.Command, fromStdin *bool) {
	cmd.Flags().BoolVar(fromStdin, "password-stdin", false, "read the password from standard input")
}

// readPassword takes a password from standard input or from the person.
func (a *application) readPassword(ctx context.Context, question string, fromStdin bool) (string, error) {
	if fromStdin {
		p, err := a.term.ReadSecret()
		if err == nil && p == "" {
			err = usage("standard input holds no password")
		}
		return p, err
	}
	p, err := a.term.AskPassword(ctx, oneLine(question)+" ")
	if errors.Is(err, terminal.ErrNobody) {
		return "", usage("not on a terminal: pass the password with --password-stdin")
	}
	if errors.Is(err, io.EOF) {
		return "", failed("aborted", "No password was given; nothing was changed.")
	}
	return p, err
}

// newPassword asks twice where it cannot be seen what is typed.
func (a *application) newPassword(ctx context.Context, username string, fromStdin bool) (string, error) {
	p, err := a.readPassword(ctx, "New password of "+username+":", fromStdin)
	if err != nil || fromStdin {
		return p, err
	}
	again, err := a.readPassword(ctx, "Once more:", false)
	if err != nil {
		return "", err
	}
	if p != again {
		return "", failed("aborted", "The two passwords differ; nothing was changed.")
	}
	return p, nil
}

// askUsername asks who to sign in as, with the one who did last as the default.
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
		return "", usage("not on a terminal: pass --username")
	case err != nil && !errors.Is(err, io.EOF):
		return "", err
	case name == "" && last == "":
		return "", usage("pass --username")
	case name == "":
		return last, nil
	}
	return name, nil
}

func (a *application) password() *cobra.Command {
	return &cobra.Command{
		Use: "password", Short: "Change your own password",
		Long: `Change your own password, which ends all of your sessions: sign in again after it.
It asks for the current and the new one; an admin can set a password in a script with
"sluice admin reset-password".`,
		Example: `  sluice password`,
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			c, err := a.client()
			if err != nil {
				return err
			}
			if !a.term.Interactive {
				return usage("not on a terminal: the passwords have to be asked for")
			}
			who, err := c.WhoAmI(ctx)
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
			if err := c.ChangePassword(ctx, who.User.Username, current, next); err != nil {
				return err
			}
			return a.done(`The password is changed and all sessions are ended. Run "sluice login".`)
		},
	}
}
