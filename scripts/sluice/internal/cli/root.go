package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
)

const rootLong = `Sluice protects apps on Kubernetes with API keys and usage plans. This command manages keys,
plans, apps and deployments, and reports usage per key.

To start, run "sluice login URL". To choose the project and environment, use --project and
--environment, SLUICE_PROJECT and SLUICE_ENVIRONMENT, or "sluice context set". Flags override
variables; variables override the context.

Scripts can set SLUICE_URL and SLUICE_TOKEN instead of a context. SLUICE_TOKEN is a service
token ("sluice token create"). NO_COLOR disables colors.

-o json prints a stable format for scripts. "sluice key list" and "sluice key bulk" also have
-o ids, with one ID per line. --jq EXPRESSION filters that JSON and prints one
result per line, with strings unquoted. It does not need jq, and the expression cannot read
environment variables.

Exit status: 0 success, 1 failure, 2 usage error, 3 not signed in, 4 not found,
130 interrupted.`

func (a *application) root() *cobra.Command {
	root := a.group("sluice", "Manage API keys, plans and apps on Kubernetes",
		a.login(), a.logout(), a.whoami(), a.password(), a.contextGroup(),
		a.projectGroup(), a.environmentGroup(), a.memberGroup(), a.tokenGroup(),
		a.status(), a.planGroup(), a.keyGroup(), a.usageGroup(), a.quotaGroup(), a.changeShow(), a.requestGroup(), a.appGroup(), a.activity(), a.audit(), a.adminGroup(),
		a.completion(), a.version(),
	)
	root.Long = rootLong
	root.Example = `  sluice login https://sluice.example.com --username ada
  sluice context set --project shop --environment prod
  sluice key create "Checkout team" --plan plan-starter
  sluice app list --jq '.items[] | select(.gate.state == "pending") | .name'`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.DisableAutoGenTag = true // generated pages must not contain the date
	root.Version = a.env.Build.Version
	root.SetVersionTemplate("sluice {{.Version}}\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.help())
	root.SetIn(a.term.In)
	root.SetOut(a.term.Out)
	root.SetErr(a.term.Err)
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&a.flags.context, "context", "", "saved context; overrides SLUICE_URL and SLUICE_TOKEN")
	f.StringVarP(&a.flags.project, "project", "p", "", "project name (SLUICE_PROJECT)")
	f.StringVarP(&a.flags.environment, "environment", "e", "", "environment name (SLUICE_ENVIRONMENT)")
	a.outputFlag(root, f, render.Formats())
	f.StringVar(&a.flags.jq, "jq", "", "jq expression that filters the JSON output, e.g. '.items[].id'")
	f.DurationVar(&a.flags.timeout, "timeout", client.DefaultTimeout, "time limit for each request to the server")
	f.BoolVar(&a.flags.verbose, "verbose", false, "log each request to standard error: status, duration and request ID; no secrets")
	a.fixed(root, "jq")
	a.complete(root)
	a.completes(root, a.offers())
	return root
}

func (a *application) checkFlags(cmd *cobra.Command) error {
	formats := render.Formats()
	if cmd.Annotations[idsListed] != "" {
		formats = append(formats, string(render.IDs))
	}
	if !slices.Contains(formats, a.flags.output) {
		return usage("--output must be %s, not %q", oneOf(formats), a.flags.output)
	}
	if a.flags.timeout <= 0 {
		return usage("--timeout must be positive")
	}
	if cmd.Flags().Changed("jq") {
		return a.setFilter(cmd)
	}
	return nil
}

func (a *application) setFilter(cmd *cobra.Command) error {
	switch {
	case a.flags.jq == "": // such as an unset variable in a script
		return usage("--jq is empty")
	case cmd.Flags().Changed("output") && a.format() != render.JSON:
		return usage("--jq needs JSON output: omit --output or pass -o json")
	case cmd.Flags().Changed("quiet"):
		return usage("--quiet and --jq cannot be used together")
	}
	f, err := render.ParseFilter(a.flags.jq)
	if err != nil {
		return usage("--jq: %w", err)
	}
	ctx := cmd.Context()
	a.flags.output = string(render.JSON)
	a.filter = func(value any) error { return a.showFiltered(ctx, f, value) }
	return nil
}

func (a *application) help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show help for a command",
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

func (a *application) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of sluice",
		Example: `  sluice version`,
		RunE: func(*cobra.Command, []string) error {
			b := a.env.Build
			return a.show(b, func(s render.Screen) error {
				return s.Fields(
					render.Field{Name: "Version", Value: b.Version},
					render.Field{Name: "Commit", Value: b.Commit},
					render.Field{Name: "Go", Value: b.Go},
				)
			})
		},
	}
}
