package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) environmentGroup() *cobra.Command {
	g := a.group("environment", "Environments of a project", a.environmentList(), a.environmentCreate(), a.environmentDelete())
	g.Aliases = []string{"env"}
	return g
}

func (a *application) environmentList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List a project's environments", SuggestFor: []string{"ls"},
		Example: `  sluice environment list --project shop`,
		Args:    takes(),
		RunE: a.inProject(func(ctx context.Context, w work, _ []string) error {
			return showList(a, "environments", w.Environments(ctx, w.project), []render.Column{
				{Name: "ENVIRONMENT", Whole: true}, {Name: "NAMESPACE"}, {Name: "CREATED", Extra: true},
			}, func(e wire.Environment) []render.Cell {
				return render.Plainly(e.Name, e.Namespace, stamp(e.CreatedAt))
			})
		}),
	}
}

func (a *application) environmentCreate() *cobra.Command {
	return &cobra.Command{
		Use: "create NAME", Short: "Create an environment", SuggestFor: []string{"add", "new"},
		Example: `  sluice environment create prod --project shop`,
		Args:    takes("NAME"),
		RunE: a.inProject(func(ctx context.Context, w work, args []string) error {
			e, err := w.CreateEnvironment(ctx, w.project, args[0])
			if err != nil {
				return err
			}
			return a.show(e, func(s render.Screen) error {
				return s.Line("Environment %s of %s is created, in namespace %s.", e.Name, e.Project, e.Namespace)
			})
		}),
	}
}

func (a *application) environmentDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete an empty environment", SuggestFor: []string{"remove", "rm"},
		Example: `  sluice environment delete staging --project shop`,
		Args:    takes("NAME"),
	}
	confirm := a.confirmation(cmd)
	cmd.RunE = a.inProject(func(ctx context.Context, w work, args []string) error {
		if err := confirm.ask(ctx, "Delete environment "+args[0]+" of "+w.project+"?"); err != nil {
			return err
		}
		if err := w.DeleteEnvironment(ctx, w.project, args[0]); err != nil {
			return err
		}
		return a.done("Environment %s of %s is deleted.", args[0], w.project)
	})
	return cmd
}
