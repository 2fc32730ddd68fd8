package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
)

// guard is how sure a command makes that it is meant.
type guard int

const (
	// asks lets a person say no. A script meant it when it ran the command.
	asks guard = iota
	// insists wants --yes of a script too: it cannot be taken back.
	insists
	// names has a person type the name of what will be gone, and a script pass it with
	// --confirm: who types "y" by habit, or runs a script in the wrong place, is stopped.
	names
)

// confirmation is the --yes, and for some the --confirm, of a command that asks.
type confirmation struct {
	a     *application
	guard guard
	yes   bool
	name  string // that --confirm gave
}

func (a *application) confirmation(cmd *cobra.Command, g guard) *confirmation {
	c := &confirmation{a: a, guard: g}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation")
	if g == names {
		cmd.Flags().StringVar(&c.name, "confirm", "", "name of the object, to confirm without a prompt")
	}
	return c
}

// ask lets the person say no to what is done to the thing of a name.
func (c *confirmation) ask(ctx context.Context, question, name string) error {
	given := c.name != ""
	switch {
	case given && c.name != name:
		return usage("--confirm must be %q, not %q; nothing was changed", name, c.name)
	case c.yes, given, c.guard == asks && !c.a.term.Attended:
		return nil
	}
	hint, wanted := " [y/N] ", []string{"y", "yes"}
	if c.guard == names {
		hint, wanted = " Type "+oneLine(name)+" to confirm: ", []string{name}
	}
	answer, err := c.a.term.Ask(ctx, oneLine(question)+hint)
	if errors.Is(err, terminal.ErrNobody) {
		return c.unasked(name)
	}
	if err != nil && !errors.Is(err, io.EOF) { // Ctrl-D is a no
		return err
	}
	for _, w := range wanted {
		if answer == w || c.guard != names && strings.EqualFold(answer, w) {
			return nil
		}
	}
	return failed("aborted", "Nothing was changed.")
}

// unasked is the error where nobody can be asked.
func (c *confirmation) unasked(name string) error {
	flag := "--yes"
	if c.guard == names {
		flag = "--confirm " + name
	}
	return failure{"confirmation_required", exitUsage, "This command needs confirmation. Without a terminal, pass " + flag + "."}
}

// removal is a change that takes away what the command's first argument names.
type removal struct {
	question string // asked before
	do       func(ctx context.Context) error
	done     string // said afterwards
}

// removal completes a command that asks first.
func (a *application) removal(s scope, g guard, cmd *cobra.Command, of func(w work) removal) *cobra.Command {
	confirm := a.confirmation(cmd, g)
	return a.command(s, cmd, func(ctx context.Context, w work) error {
		r := of(w)
		if err := confirm.ask(ctx, r.question, w.args[0]); err != nil {
			return err
		}
		if err := r.do(ctx); err != nil {
			return err
		}
		return a.done("%s", r.done)
	})
}
