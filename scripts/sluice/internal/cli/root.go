package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
)

const rootLong = `Sluice puts a gate of API keys in front of apps on Kubernetes, with usage plans,
per-key usage and deploys by webhook. This is its command line.

Begin with "sluice login URL". The project and the environment of a command come
from --project and --environment, from SLUICE_PROJECT and SLUICE_ENVIRONMENT, or
from the context ("sluice context set"). SLUICE_URL and SLUICE_TOKEN take the place
of a context, for scripts. NO_COLOR switches colours off.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 not signed in, 4 not found,
130 interrupted.`

// root is the whole tree of commands.
func (a *application) root() *cobra.Command {
	root := a.group("sluice", "API keys, usage plans and deploys for apps on Kubernetes",
		a.login(), a.logout(), a.whoami(), a.password(), a.contextGroup(),
		a.projectGroup(), a.environmentGroup(), a.memberGroup(),
		a.planGroup(), a.keyGroup(), a.appGroup(), a.audit(), a.adminGroup(),
		a.completion(), a.version(),
	)
	root.Long = rootLong
	root.Example = `  sluice login https://sluice.example.com --username ada
  sluice context set --project shop --environment prod
  sluice key create --plan plan-starter --name "Checkout team"`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.DisableAutoGenTag = true // pages that carry the day they were made on are always stale
	root.Version = a.env.Build.Version
	root.SetVersionTemplate("sluice {{.Version}}\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.help())
	root.SetIn(a.term.In)
	root.SetOut(a.term.Out)
	root.SetErr(a.term.Err)
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&a.flags.context, "context", "", "use this saved context, whatever SLUICE_URL and SLUICE_TOKEN say")
	f.StringVarP(&a.flags.project, "project", "p", "", "project to work in (SLUICE_PROJECT)")
	f.StringVarP(&a.flags.environment, "environment", "e", "", "environment to work in (SLUICE_ENVIRONMENT)")
	f.StringVarP(&a.flags.output, "output", "o", string(render.Table), "form of output: table, json or yaml")
	f.DurationVar(&a.flags.timeout, "timeout", client.DefaultTimeout, "how long one request to the server may take")
	a.fixed(root, "output", render.Formats()...)
	a.watchStart(root)
	return root
}

// group is a command that only holds others. Without one it shows its help; with one
// that it does not know it says what may have been meant.
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
	message := fmt.Sprintf("%q is no command of %q", typed, cmd.CommandPath())
	if near := cmd.SuggestionsFor(typed); len(near) > 0 {
		slices.Sort(near)
		message += `; did you mean "` + strings.Join(slices.Compact(near), `" or "`) + `"?`
	}
	return usage("%s", message)
}

// flagError explains a flag that cannot be. After an unknown command it is the
// command that is wrong.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 && !strings.Contains(cmd.Use, " ") {
		return unknownCommand(cmd, cmd.Flags().Arg(0))
	}
	return usage("%w; see \"%s --help\"", err, cmd.CommandPath())
}

// takes wants exactly the arguments of these names.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("%s is missing; usage: %s", names[len(args)], cmd.UseLine())
		case len(args) > len(names):
			return usage("%q is one argument too many; usage: %s", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// takesUpTo wants at most the arguments of these names.
func takesUpTo(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return takes(names[:min(len(args), len(names))]...)(cmd, args)
	}
}

// watchStart notes when any command begins.
func (a *application) watchStart(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.running = true
			if err := a.checkFlags(); err != nil {
				return err
			}
			return run(cmd, args)
		}
	}
	for _, c := range cmd.Commands() {
		a.watchStart(c)
	}
}

// checkFlags refuses values that the common flags cannot have.
func (a *application) checkFlags() error {
	if !slices.Contains(render.Formats(), a.flags.output) {
		return usage("--output is table, json or yaml, not %q", a.flags.output)
	}
	if a.flags.timeout <= 0 {
		return usage("--timeout must be positive")
	}
	return nil
}

// fixed lets the shell complete a flag with one of a few values.
func (a *application) fixed(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that is not there, which a test of the tree would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// help is "sluice help", which refuses topics that it does not know.
func (a *application) help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Explain a command",
		Example: `  sluice help app webhook enable`,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usage("%w", err)
			}
			if len(rest) > 0 {
				return unknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
