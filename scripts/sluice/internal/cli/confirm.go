package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
)

// confirmation is the --yes of a command that asks.
type confirmation struct {
	a   *application
	yes bool
}

func (a *application) confirmation(cmd *cobra.Command) *confirmation {
	c := &confirmation{a: a}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "go ahead without asking")
	return c
}

// ask lets the person say no. Where nobody can be asked, nothing is done.
func (c *confirmation) ask(ctx context.Context, question string) error {
	if c.yes {
		return nil
	}
	answer, err := c.a.term.Ask(ctx, oneLine(question)+" [y/N] ")
	if errors.Is(err, terminal.ErrNobody) {
		return failure{"confirmation_required", exitUsage, "Not on a terminal: pass --yes to go ahead without being asked."}
	}
	if err != nil && !errors.Is(err, io.EOF) { // Ctrl-D is a no
		return err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return nil
	}
	return failed("aborted", "Nothing was changed.")
}
