package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) memberGroup() *cobra.Command {
	return a.group("member", "Who may do what in a project", a.memberList(), a.memberSet(), a.memberRemove())
}

func (a *application) memberList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List a project's members", SuggestFor: []string{"ls"},
		Example: `  sluice member list --project shop`,
		Args:    takes(),
		RunE: a.inProject(func(ctx context.Context, w work, _ []string) error {
			return showList(a, "members", w.Members(ctx, w.project), []render.Column{
				{Name: "USER", Whole: true}, {Name: "ROLE"},
			}, func(m wire.Member) []render.Cell { return render.Plainly(m.Username, m.Role) })
		}),
	}
}

func (a *application) memberSet() *cobra.Command {
	return &cobra.Command{
		Use: "set USERNAME ROLE", Short: "Make a user a member, or change a member's role", SuggestFor: []string{"add", "create"},
		Long: `Make a user a member of a project, or change a member's role.

A viewer reads. A developer also deploys and manages apps, keys and plans. An owner
also manages members and environments. The API takes the list of members as a whole,
so of two changes at once the later one counts.`,
		Example:   `  sluice member set ada developer --project shop`,
		Args:      takes("USERNAME", "ROLE"),
		ValidArgs: []string{"viewer", "developer", "owner"},
		RunE: a.inProject(func(ctx context.Context, w work, args []string) error {
			members, err := client.Collect(w.Members(ctx, w.project))
			if err != nil {
				return err
			}
			given := wire.Member{Username: args[0], Role: args[1]}
			found := false
			for i, m := range members {
				if m.Username == given.Username {
					members[i], found = given, true
				}
			}
			if !found {
				members = append(members, given)
			}
			if err := w.SetMembers(ctx, w.project, members); err != nil {
				return err
			}
			return a.show(given, func(s render.Screen) error {
				return s.Line("%s is %s of %s.", given.Username, given.Role, w.project)
			})
		}),
	}
}

func (a *application) memberRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove USERNAME", Short: "Take a user out of a project", SuggestFor: []string{"delete", "rm"},
		Example: `  sluice member remove ada --project shop`,
		Args:    takes("USERNAME"),
	}
	confirm := a.confirmation(cmd)
	cmd.RunE = a.inProject(func(ctx context.Context, w work, args []string) error {
		if err := confirm.ask(ctx, "Take "+args[0]+" out of "+w.project+"?"); err != nil {
			return err
		}
		if err := w.RemoveMember(ctx, w.project, args[0]); err != nil {
			return err
		}
		return a.done("%s is no member of %s any more.", args[0], w.project)
	})
	return cmd
}
