package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) projectGroup() *cobra.Command {
	return a.group("project", "Manage projects", a.projectList(), a.projectCreate(), a.projectShow(), a.projectUpdate(), a.projectDelete())
}

func (a *application) projectList() *cobra.Command {
	return a.command(onServer, &cobra.Command{
		Use: "list", Short: "List the projects that you have a role in", SuggestFor: []string{"ls"},
		Example: `  sluice project list`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "projects", w.Projects(ctx), []render.Column{
			{Name: "PROJECT", Whole: true}, {Name: "ROLE"}, {Name: "CREATED", Rank: 1},
		}, func(p wire.Project) []render.Cell {
			return render.Plainly(p.Name, p.Role, stamp(p.CreatedAt))
		})
	})
}

func (a *application) projectCreate() *cobra.Command {
	return a.command(onServer, &cobra.Command{
		Use: "create NAME", Short: "Create a project", SuggestFor: []string{"add", "new"},
		Example: `  sluice project create shop`,
	}, showResult(func(p wire.Project) error {
		return a.show(p, func(s render.Screen) error { return s.Line("Project %s created. Your role is %s.", p.Name, p.Role) })
	}, func(ctx context.Context, w work) (wire.Project, error) {
		return w.CreateProject(ctx, w.args[0])
	}))
}

func (a *application) projectShow() *cobra.Command {
	return a.command(onServer, &cobra.Command{
		Use: "show NAME", Short: "Show a project", SuggestFor: []string{"get", "describe"},
		Example: `  sluice project show shop`,
	}, showResult(a.showProject, func(ctx context.Context, w work) (wire.Project, error) {
		return w.Project(ctx, w.args[0])
	}))
}

func (a *application) showProject(p wire.Project) error {
	return a.showFields(p, []render.Field{
		{Name: "Project", Value: p.Name},
		{Name: "Your role", Value: p.Role},
		{Name: "Leaked keys", Value: leakedAre(p.LeakPolicy)},
		{Name: "Image registries", Value: cmp.Or(strings.Join(p.Registries, ", "), "any")},
		{Name: "Created", Value: stamp(p.CreatedAt)},
	})
}

func leakedAre(policy string) string {
	switch apikey.LeakPolicy(policy) {
	case apikey.LeakDisable:
		return "disabled"
	case apikey.LeakRevoke:
		return "revoked"
	}
	return policy // unknown value of a newer server
}

func (a *application) projectUpdate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Change a project's settings", SuggestFor: []string{"edit", "set"},
		Long: `Change the settings of a project. The command needs the role owner.

--leak-policy sets the action for a key whose current secret is reported as leaked: disable,
which can be undone, or revoke, which is permanent. If the previous secret leaks, only that
secret ends.

--registries sets the allowed image registries for deployments, rollbacks, promotions, builds
and webhooks. Each is a host with an optional port and path.`,
		Example: `  sluice project update shop --leak-policy revoke
  sluice project update shop --registries ghcr.io/acme,registry.example.com:5000
  sluice project update shop --registries ""`,
	}
	policy := cmd.Flags().String("leak-policy", "", "action for leaked keys: "+oneOf(apikey.LeakPolicies()))
	registries := cmd.Flags().String("registries", "", "allowed image registries, separated by commas (empty for any)")
	a.fixed(cmd, "leak-policy", words(apikey.LeakPolicies())...)
	return a.command(onServer, cmd, showResult(a.showProject, func(ctx context.Context, w work) (wire.Project, error) {
		var in wire.UpdateProject
		if cmd.Flags().Changed("registries") {
			in.Registries = wire.Some(strings.FieldsFunc(*registries, func(c rune) bool { return c == ',' || c == ' ' }))
		}
		if *policy != "" || !in.Registries.Set {
			if !apikey.LeakPolicy(*policy).Valid() {
				return wire.Project{}, usage("--leak-policy must be %s, not %q", oneOf(apikey.LeakPolicies()), *policy)
			}
			in.LeakPolicy = wire.Some(*policy)
		}
		return w.UpdateProject(ctx, w.args[0], in)
	}))
}

func (a *application) projectDelete() *cobra.Command {
	return a.removal(onServer, requireName, &cobra.Command{
		Use: "delete NAME", Short: "Delete an empty project", SuggestFor: []string{"remove", "rm"},
		Example: `  sluice project delete shop`,
	}, func(w work) removal {
		return removal{
			question: "Delete project " + w.args[0] + "?",
			do:       func(ctx context.Context) error { return w.DeleteProject(ctx, w.args[0]) },
			done:     "Project " + w.args[0] + " deleted.",
		}
	})
}

func (a *application) environmentGroup() *cobra.Command {
	g := a.group("environment", "Manage the environments of a project", a.environmentList(), a.environmentCreate(), a.environmentDelete())
	g.Aliases = []string{"env"}
	return g
}

func (a *application) environmentList() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "list", Short: "List a project's environments", SuggestFor: []string{"ls"},
		Example: `  sluice environment list --project shop`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "environments", w.Environments(ctx, w.project), []render.Column{
			{Name: "ENVIRONMENT", Whole: true}, {Name: "NAMESPACE"}, {Name: "CREATED", Rank: 1},
		}, func(e wire.Environment) []render.Cell {
			return render.Plainly(e.Name, e.Namespace, stamp(e.CreatedAt))
		})
	})
}

func (a *application) environmentCreate() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "create NAME", Short: "Create an environment", SuggestFor: []string{"add", "new"},
		Example: `  sluice environment create prod --project shop`,
	}, showResult(func(e wire.Environment) error {
		return a.show(e, func(s render.Screen) error {
			return s.Line("Environment %s of %s created in namespace %s.", e.Name, e.Project, e.Namespace)
		})
	}, func(ctx context.Context, w work) (wire.Environment, error) {
		return w.CreateEnvironment(ctx, w.project, w.args[0])
	}))
}

func (a *application) environmentDelete() *cobra.Command {
	return a.removal(inProject, requireName, &cobra.Command{
		Use: "delete NAME", Short: "Delete an empty environment", SuggestFor: []string{"remove", "rm"},
		Example: `  sluice environment delete staging --project shop`,
	}, func(w work) removal {
		return removal{
			question: "Delete environment " + w.args[0] + " of " + w.project + "?",
			do:       func(ctx context.Context) error { return w.DeleteEnvironment(ctx, w.project, w.args[0]) },
			done:     "Environment " + w.args[0] + " of " + w.project + " deleted.",
		}
	})
}

func (a *application) memberGroup() *cobra.Command {
	return a.group("member", "Manage the members of a project", a.memberList(), a.memberSet(), a.memberRemove())
}

func (a *application) memberList() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "list", Short: "List a project's members", SuggestFor: []string{"ls"},
		Example: `  sluice member list --project shop`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "members", w.Members(ctx, w.project), []render.Column{
			{Name: "USER", Whole: true}, {Name: "ROLE"},
		}, func(m wire.Member) []render.Cell { return render.Plainly(m.Username, m.Role) })
	})
}

func (a *application) memberSet() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "set USERNAME ROLE", Short: "Add a member or change a member's role", SuggestFor: []string{"add", "create"},
		Long: `Add a user to a project, or change a member's role.

A viewer can read. A developer can also deploy and manage apps, keys and plans. An owner can
also manage members and environments.`,
		Example: `  sluice member set ada developer --project shop`,
	}, func(ctx context.Context, w work) error {
		given := wire.Member{Username: w.args[0], Role: w.args[1]}
		err := w.ChangeMembers(ctx, w.project, func(members []wire.Member) ([]wire.Member, error) {
			for i, m := range members {
				if m.Username == given.Username {
					members[i] = given
					return members, nil
				}
			}
			return append(members, given), nil
		})
		if err != nil {
			return err
		}
		return a.show(given, func(s render.Screen) error {
			return s.Line("Role of %s in project %s: %s.", given.Username, w.project, given.Role)
		})
	})
}

func (a *application) memberRemove() *cobra.Command {
	return a.removal(inProject, requireYes, &cobra.Command{
		Use: "remove USERNAME", Short: "Remove a member from a project", SuggestFor: []string{"delete", "rm"},
		Example: `  sluice member remove ada --project shop`,
	}, func(w work) removal {
		return removal{
			question: "Remove " + w.args[0] + " from project " + w.project + "?",
			do:       func(ctx context.Context) error { return w.RemoveMember(ctx, w.project, w.args[0]) },
			done:     "Member " + w.args[0] + " removed from project " + w.project + ".",
		}
	})
}
