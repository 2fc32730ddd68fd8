package cli

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) completion() *cobra.Command {
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print a shell completion script",
		Long: `Print a script that completes commands and flags in a shell. SHELL is bash, zsh, fish or
powershell. Load the script in the shell's startup file.`,
		Example: `  source <(sluice completion bash)
  sluice completion zsh > "${fpath[1]}/_sluice"
  sluice completion fish > ~/.config/fish/completions/sluice.fish`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), a.term.Out
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usage("SHELL must be bash, zsh, fish or powershell, not %q", args[0])
		},
	}
}

const (
	mostOffered  = 200
	offerTimeout = 2 * time.Second
)

type offer func(ctx context.Context, args []string) ([]cobra.Completion, error)

// offers returns the offers by the name of an argument in Use, or of a flag. A name can be limited
// to a command or a group: "project NAME".
func (a *application) offers() map[string]offer {
	apps := offered(a, inEnvironment, func(ctx context.Context, w work) iter.Seq2[wire.App, error] {
		return w.Apps(ctx, w.project, w.environment)
	}, func(p wire.App) cobra.Completion { return described(p.Name, p.Image) })
	plans := offered(a, inEnvironment, func(ctx context.Context, w work) iter.Seq2[wire.Plan, error] {
		return w.Plans(ctx, w.project, w.environment)
	}, func(p wire.Plan) cobra.Completion { return described(p.ID, p.Name) })
	projects := offered(a, onServer, func(ctx context.Context, w work) iter.Seq2[wire.Project, error] {
		return w.Projects(ctx)
	}, func(p wire.Project) cobra.Completion { return described(p.Name, p.Role) })
	environments := offered(a, inProject, func(ctx context.Context, w work) iter.Seq2[wire.Environment, error] {
		return w.Environments(ctx, w.project)
	}, func(e wire.Environment) cobra.Completion { return described(e.Name, e.Namespace) })
	return map[string]offer{
		"APP": apps, "--app": apps,
		"PLAN": plans, "--plan": plans, "bulk --with-plan": plans,
		"project NAME": projects, "--project": projects,
		"environment NAME": environments, "--environment": environments, "promote --from": environments,
		"member USERNAME": offered(a, inProject, func(ctx context.Context, w work) iter.Seq2[wire.Member, error] {
			return w.Members(ctx, w.project)
		}, func(m wire.Member) cobra.Completion { return described(m.Username, m.Role) }),
		"TOKEN": offered(a, inProject, func(ctx context.Context, w work) iter.Seq2[wire.Token, error] {
			return w.Tokens(ctx, w.project)
		}, func(t wire.Token) cobra.Completion { return described(t.Name, t.Role+", "+t.Status) }),
		"ROLE":         func(context.Context, []string) ([]cobra.Completion, error) { return words(app.Roles()), nil },
		"HANDLING":     func(context.Context, []string) ([]cobra.Completion, error) { return words(app.Preflights()), nil },
		"context NAME": a.offerContexts, "--context": a.offerContexts,
		"KEY": offered(a, inProject, func(ctx context.Context, w work) iter.Seq2[wire.Key, error] {
			return only(func(k wire.Key) bool { return k.Status != string(apikey.Revoked) }, w.Keys(ctx, w.project, client.KeyFilter{}))
		}, func(k wire.Key) cobra.Completion { return described(k.ID, k.Name) }),
		"rollback --revision": offered(a, inEnvironment, func(ctx context.Context, w work) iter.Seq2[wire.Deployment, error] {
			if len(w.args) == 0 {
				return each[wire.Deployment](nil)
			}
			return w.Deployments(ctx, w.project, w.environment, w.args[0])
		}, func(d wire.Deployment) cobra.Completion {
			return described(number(d.Revision), d.Image+", "+d.Status)
		}),
	}
}

func offered[T any](a *application, in scope, list func(ctx context.Context, w work) iter.Seq2[T, error], name func(T) cobra.Completion) offer {
	return func(ctx context.Context, args []string) ([]cobra.Completion, error) {
		a.flags.timeout, a.flags.verbose, a.env.Tries = min(a.flags.timeout, offerTimeout), false, 1
		var all []cobra.Completion
		err := a.run(ctx, in, args, func(ctx context.Context, w work) error {
			for item, err := range first(mostOffered, list(ctx, w)) {
				if err != nil {
					return err
				}
				all = append(all, name(item))
			}
			return nil
		})
		return all, err
	}
}

func described(name, about string) cobra.Completion {
	return cobra.CompletionWithDesc(oneLine(name), oneLine(about))
}

func (a *application) offerContexts(context.Context, []string) ([]cobra.Completion, error) {
	dir, err := a.contexts()
	if err != nil {
		return nil, err
	}
	return dir.Names()
}

func (a *application) completes(cmd *cobra.Command, offers map[string]offer) {
	for _, c := range cmd.Commands() {
		a.completes(c, offers)
	}
	find := func(what string) offer {
		for _, of := range []string{cmd.Name() + " ", parentName(cmd) + " ", ""} {
			if o := offers[of+what]; o != nil {
				return o
			}
		}
		return nil
	}
	arguments := strings.Fields(cmd.Use)[1:]
	if len(arguments) > 0 && cmd.ValidArgs == nil && cmd.Name() != "create" { // a new object has a new name
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) >= len(arguments) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return begin(cmd.Context(), find(arguments[len(args)]), args, typed)
		}
	}
	flag := func(f *pflag.Flag) {
		o := find("--" + f.Name)
		if o == nil {
			return
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return begin(cmd.Context(), o, args, typed)
		})
	}
	cmd.Flags().VisitAll(flag)
	cmd.PersistentFlags().VisitAll(flag)
}

// begin returns the offered values that begin with typed. On an error it offers nothing, because
// completions cannot show errors.
func begin(ctx context.Context, o offer, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if o == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := o(ctx, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var fit []cobra.Completion
	for _, c := range all {
		if strings.HasPrefix(c, typed) {
			fit = append(fit, c)
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp
}

func parentName(cmd *cobra.Command) string {
	if cmd.HasParent() {
		return cmd.Parent().Name()
	}
	return ""
}
