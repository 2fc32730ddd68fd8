package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) projectGroup() *cobra.Command {
	return a.group("project", "Projects: the teams' spaces", a.projectList(), a.projectCreate(), a.projectShow(), a.projectDelete())
}

func (a *application) projectList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the projects that you have a role in", SuggestFor: []string{"ls"},
		Example: `  sluice project list`,
		Args:    takes(),
		RunE: a.signedIn(func(ctx context.Context, c *client.Client, _ []string) error {
			return showList(a, "projects", c.Projects(ctx), []render.Column{
				{Name: "PROJECT", Whole: true}, {Name: "ROLE"}, {Name: "CREATED", Extra: true},
			}, func(p wire.Project) []render.Cell {
				return render.Plainly(p.Name, p.Role, stamp(p.CreatedAt))
			})
		}),
	}
}

func (a *application) projectCreate() *cobra.Command {
	return &cobra.Command{
		Use: "create NAME", Short: "Create a project", SuggestFor: []string{"add", "new"},
		Example: `  sluice project create shop`,
		Args:    takes("NAME"),
		RunE: a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.CreateProject(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(p, func(s render.Screen) error { return s.Line("Project %s is created; you are its %s.", p.Name, p.Role) })
		}),
	}
}

func (a *application) projectShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a project", SuggestFor: []string{"get", "describe"},
		Example: `  sluice project show shop`,
		Args:    takes("NAME"),
		RunE: a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.Project(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(p, func(s render.Screen) error {
				return s.Fields(
					render.Field{Name: "Project", Value: p.Name},
					render.Field{Name: "Your role", Value: p.Role},
					render.Field{Name: "Created", Value: stamp(p.CreatedAt)},
				)
			})
		}),
	}
}

func (a *application) projectDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete an empty project", SuggestFor: []string{"remove", "rm"},
		Example: `  sluice project delete shop`,
		Args:    takes("NAME"),
	}
	confirm := a.confirmation(cmd)
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		if err := confirm.ask(ctx, "Delete project "+args[0]+"?"); err != nil {
			return err
		}
		if err := c.DeleteProject(ctx, args[0]); err != nil {
			return err
		}
		return a.done("Project %s is deleted.", args[0])
	})
	return cmd
}
