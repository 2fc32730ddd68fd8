package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/contexts"
	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
)

func (a *application) contextGroup() *cobra.Command {
	return a.group("context", "Manage contexts for several servers", a.contextList(), a.contextShow(), a.contextUse(), a.contextSet(), a.contextDelete())
}

type contextView struct {
	Name        string `json:"name"`
	URL         string `json:"url"`
	Project     string `json:"project"`
	Environment string `json:"environment"`
	Username    string `json:"username"`
	SignedIn    bool   `json:"signed_in"`
	Current     bool   `json:"current"`
}

func (a *application) viewContext(c contexts.Context, current string) contextView {
	return contextView{
		Name: c.Name, URL: c.URL, Project: c.Project, Environment: c.Environment, Username: c.Username,
		SignedIn: c.Token != "" && a.env.Now().Before(c.ExpiresAt), Current: c.Name == current,
	}
}

func (a *application) contextList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the saved contexts", SuggestFor: []string{"ls"},
		Example: `  sluice context list`,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.contexts()
			if err != nil {
				return err
			}
			views, err := a.contextViews(dir)
			if err != nil {
				return err
			}
			return showList(a, "contexts", each(views), []render.Column{
				{Name: "", Whole: true},
				{Name: "NAME", Whole: true},
				{Name: "URL", Cap: 32},
				{Name: "PROJECT"},
				{Name: "ENVIRONMENT"},
				{Name: "USER", Rank: 2},
				{Name: "SIGNED IN", Rank: 1},
			}, func(v contextView) []render.Cell {
				mark := " "
				if v.Current {
					mark = "*"
				}
				return render.Plainly(mark, v.Name, v.URL, v.Project, v.Environment, v.Username, yesNo(v.SignedIn))
			})
		},
	}
}

func (a *application) contextViews(dir contexts.Dir) ([]contextView, error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	current, err := dir.Current()
	if err != nil {
		return nil, err
	}
	views := make([]contextView, 0, len(names))
	for _, name := range names {
		c, err := dir.Get(name)
		if errors.Is(err, contexts.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		views = append(views, a.viewContext(c, current))
	}
	return views, nil
}

func (a *application) contextShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the context in use",
		Example: `  sluice context show`,
		RunE: func(*cobra.Command, []string) error {
			c, current, err := a.inUse()
			if err != nil {
				return err
			}
			return a.showContext(c, current)
		},
	}
}

func (a *application) inUse() (contexts.Context, string, error) {
	c, err := a.context()
	if err != nil {
		return c, "", err
	}
	if c.Name == "" {
		return c, "", failure{"not_found", exitNotFound, `No context exists. Run "sluice login URL".`}
	}
	dir, err := a.contexts()
	if err != nil {
		return c, "", err
	}
	current, err := dir.Current()
	return c, current, err
}

func (a *application) showContext(c contexts.Context, current string) error {
	v := a.viewContext(c, current)
	return a.show(v, func(s render.Screen) error {
		return s.Fields(
			render.Field{Name: "Context", Value: v.Name},
			render.Field{Name: "URL", Value: v.URL},
			render.Field{Name: "Project", Value: v.Project},
			render.Field{Name: "Environment", Value: v.Environment},
			render.Field{Name: "User", Value: v.Username},
			render.Field{Name: "Signed in", Value: yesNo(v.SignedIn)},
			render.Field{Name: "Current", Value: yesNo(v.Current)},
		)
	})
}

func (a *application) contextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Switch to a context", SuggestFor: []string{"switch", "select"},
		Example: `  sluice context use sluice.example.com`,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := a.contexts()
			if err != nil {
				return err
			}
			if err := dir.Use(args[0]); err != nil {
				return named("context", args[0], err)
			}
			return a.done("Switched to context %s.", args[0])
		},
	}
}

func (a *application) contextSet() *cobra.Command {
	return &cobra.Command{
		Use: "set", Short: "Set the context's project and environment",
		Long: `Set the default project and environment of the context. Pass --project, --environment or both;
an empty value removes the default. If you are signed in, both must exist.`,
		Example: `  sluice context set --project shop --environment prod`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, current, err := a.inUse()
			if err != nil {
				return err
			}
			project, environment := cmd.Flags().Changed("project"), cmd.Flags().Changed("environment")
			if !project && !environment {
				return usage("pass --project, --environment or both")
			}
			if project {
				c.Project = a.flags.project
			}
			if environment {
				c.Environment = a.flags.environment
			}
			if err := a.checkPlace(cmd.Context(), c); err != nil {
				return err
			}
			dir, err := a.contexts()
			if err != nil {
				return err
			}
			if err := dir.Put(c); err != nil {
				return err
			}
			return a.showContext(c, current)
		},
	}
}

// checkPlace returns an error if the context's server does not have the project or environment.
// Without a session, it checks nothing.
func (a *application) checkPlace(ctx context.Context, c contexts.Context) error {
	if c.Project == "" || c.Token == "" || !a.env.Now().Before(c.ExpiresAt) {
		return nil
	}
	api := a.dial(c.URL).WithToken(c.Token)
	if c.Environment == "" {
		_, err := api.Project(ctx, c.Project)
		return noProject(err, c.Project)
	}
	if _, err := api.Environment(ctx, c.Project, c.Environment); !client.HasCode(err, "not_found") {
		return err
	}
	var names []string
	for e, err := range api.Environments(ctx, c.Project) {
		if err != nil {
			return noProject(err, c.Project)
		}
		names = append(names, e.Name)
	}
	message := fmt.Sprintf("Project %s has no environment %s.", c.Project, c.Environment)
	if len(names) > 0 {
		message += " It has: " + strings.Join(names, ", ") + "."
	}
	return failure{"not_found", exitNotFound, message}
}

func noProject(err error, name string) error {
	if client.HasCode(err, "not_found") {
		return failure{"not_found", exitNotFound, "Project " + name + " does not exist."}
	}
	return err
}

func (a *application) contextDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a context", SuggestFor: []string{"remove", "rm"},
		Long: `Delete a context and its saved session from this machine. On the server, the session is valid
until it expires; "sluice logout" ends it.`,
		Example: `  sluice context delete sluice.example.com`,
	}
	confirm := a.confirmation(cmd, requireName)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := a.contexts()
		if err != nil {
			return err
		}
		if err := confirm.ask(cmd.Context(), "Delete context "+args[0]+"?", args[0]); err != nil {
			return err
		}
		if err := dir.Delete(args[0]); err != nil {
			return named("context", args[0], err)
		}
		current, err := dir.Current()
		if err != nil {
			return err
		}
		if current == args[0] {
			if err := dir.UseNone(); err != nil {
				return err
			}
		}
		return a.done("Context %s deleted.", args[0])
	}
	return cmd
}
