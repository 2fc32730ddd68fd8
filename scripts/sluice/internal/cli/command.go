package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicegate/sluice/shared/client"
)

type scope int

const (
	onServer scope = iota
	inProject
	inEnvironment
)

type work struct {
	*client.Client

	args        []string
	project     string // "" in the scope onServer
	environment string // "" outside the scope inEnvironment
}

func (w work) place() string { return w.project + "/" + w.environment }

type run func(ctx context.Context, w work) error

func (a *application) command(s scope, cmd *cobra.Command, run run) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), s, args, run) }
	return cmd
}

func (a *application) run(ctx context.Context, s scope, args []string, run run) (err error) {
	w := work{args: args}
	if s >= inProject {
		if w.project, err = a.project(); err != nil {
			return err
		}
	}
	if s >= inEnvironment {
		if w.environment, err = a.environment(); err != nil {
			return err
		}
	}
	if w.Client, err = a.client(); err != nil {
		return err
	}
	return run(ctx, w)
}

func showResult[T any](show func(T) error, call func(ctx context.Context, w work) (T, error)) run {
	return func(ctx context.Context, w work) error {
		v, err := call(ctx, w)
		if err != nil {
			return err
		}
		return show(v)
	}
}

// group returns a command with subcommands. It shows its help, or rejects an unknown subcommand.
func (a *application) group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short, SuggestionsMinimumDistance: 2,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	g.AddCommand(commands...)
	return g
}

func unknownCommand(cmd *cobra.Command, typed string) error {
	return usage("unknown command %q for %q%s", typed, cmd.CommandPath(), didYouMean("", cmd.SuggestionsFor(typed)))
}

// flagError explains an invalid flag. If the flag follows an unknown command, it reports the
// command.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 && !strings.Contains(cmd.Use, " ") {
		return unknownCommand(cmd, cmd.Flags().Arg(0))
	}
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		err = fmt.Errorf("--%s must be %s, not %q", value.GetFlag().Name, flagValue(value), value.GetValue())
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		if near := nearFlags(cmd, unknown.GetSpecifiedName()); len(near) > 0 {
			return usage("%w%s", err, didYouMean("--", near))
		}
	}
	return usage("%w; see \"%s --help\"", err, cmd.CommandPath())
}

func flagValue(e *pflag.InvalidValueError) string {
	kinds := map[string]string{
		"bool": "true or false", "duration": "a duration such as 90s, 5m or 24h", "float64": "a number",
		"int": "a whole number", "int64": "a whole number",
	}
	kind := e.GetFlag().Value.Type()
	if errors.Is(e, strconv.ErrRange) {
		return "a smaller number"
	}
	if text, ok := kinds[kind]; ok {
		return text
	}
	return "a " + kind
}

func nearFlags(cmd *cobra.Command, typed string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}}) // cobra suggests only runnable commands
	})
	return names.SuggestionsFor(typed)
}

func didYouMean(before string, near []string) string {
	if len(near) == 0 {
		return ""
	}
	slices.Sort(near)
	return `; did you mean "` + before + strings.Join(slices.Compact(near), `" or "`+before) + `"?`
}

// checkArgs accepts the arguments that a command's Use names; one in brackets is optional.
func checkArgs(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	switch {
	case len(args) < len(names) && !strings.HasPrefix(names[len(args)], "["):
		return usage("missing argument %s; usage: %s", names[len(args)], cmd.UseLine())
	case len(args) > len(names):
		return usage("unexpected argument %q; usage: %s", args[len(names)], cmd.UseLine())
	}
	return nil
}

func (a *application) complete(cmd *cobra.Command) {
	if cmd.Args == nil {
		cmd.Args = checkArgs
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.running = true
		if err := a.checkFlags(cmd); err != nil {
			return err
		}
		return run(cmd, args)
	}
	for _, c := range cmd.Commands() {
		a.complete(c)
	}
}

// oneOf formats a list of values as text: "day, week or month".
func oneOf[T ~string](values []T) string {
	last := len(values) - 1
	return strings.Join(words(values[:last]), ", ") + " or " + string(values[last])
}

func words[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

func (a *application) fixed(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func limited(cmd *cobra.Command, value int) *int {
	return cmd.Flags().Int("limit", value, "maximum number of items to show (0 for all)")
}
