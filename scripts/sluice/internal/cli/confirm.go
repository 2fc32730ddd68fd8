package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
)

type guard int

const (
	// promptOnly prompts on a terminal. Scripts need no flag.
	promptOnly guard = iota
	// requireYes prompts on a terminal. Scripts need --yes, because the change is irreversible or
	// allows requests without a key.
	requireYes
	// requireName prompts for the name of the object to delete. Scripts need --confirm NAME or --yes.
	requireName
)

type confirmation struct {
	a     *application
	guard guard
	yes   bool
	name  string
}

func (a *application) confirmation(cmd *cobra.Command, g guard) *confirmation {
	c := &confirmation{a: a, guard: g}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation")
	if g == requireName {
		cmd.Flags().StringVar(&c.name, "confirm", "", "name of the object, to confirm without a prompt")
	}
	return c
}

// required reports whether ask prompts, or fails without a terminal.
func (c *confirmation) required() bool {
	return !c.yes && c.name == "" && (c.guard != promptOnly || c.a.term.Attended)
}

func (c *confirmation) ask(ctx context.Context, question, name string) error {
	switch {
	case c.name != "" && c.name != name:
		return usage("--confirm must be %q, not %q; nothing was changed", name, c.name)
	case !c.required():
		return nil
	}
	hint, wanted := " [y/N] ", []string{"y", "yes"}
	if c.guard == requireName {
		hint, wanted = " Type "+oneLine(name)+" to confirm: ", []string{name}
	}
	answer, err := c.a.term.Ask(ctx, oneLine(question)+hint)
	if errors.Is(err, terminal.ErrNobody) {
		return c.confirmationRequired(name)
	}
	if err != nil && !errors.Is(err, io.EOF) { // Ctrl-D declines
		return err
	}
	for _, w := range wanted {
		if answer == w || c.guard != requireName && strings.EqualFold(answer, w) {
			return nil
		}
	}
	return failed("aborted", "Nothing was changed.")
}

func (c *confirmation) confirmationRequired(name string) error {
	flag := "--yes"
	if c.guard == requireName {
		flag = "--confirm " + name
	}
	return failure{"confirmation_required", exitUsage, "This command needs confirmation. Without a terminal, pass " + flag + "."}
}

type removal struct {
	question string
	do       func(ctx context.Context) error
	done     string
}

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
