package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) planGroup() *cobra.Command {
	return a.group("plan", "Usage plans: rate, burst and quota", a.planList(), a.planCreate(), a.planShow(), a.planUpdate(), a.planDelete())
}

func (a *application) planList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List an environment's usage plans", SuggestFor: []string{"ls"},
		Example: `  sluice plan list --project shop --environment prod`,
		Args:    takes(),
		RunE: a.inEnvironment(func(ctx context.Context, w work, _ []string) error {
			return showList(a, "plans", w.Plans(ctx, w.project, w.environment), []render.Column{
				{Name: "PLAN", Whole: true},
				{Name: "NAME"},
				{Name: "RATE", Right: true, Whole: true},
				{Name: "BURST", Right: true, Whole: true},
				{Name: "QUOTA"},
			}, func(p wire.Plan) []render.Cell {
				return render.Plainly(p.ID, p.Name, rate(p.Rate), number(p.Burst), quota(p))
			})
		}),
	}
}

func (a *application) planShow() *cobra.Command {
	return &cobra.Command{
		Use: "show PLAN", Short: "Show a usage plan", SuggestFor: []string{"get", "describe"},
		Example: `  sluice plan show plan-starter`,
		Args:    takes("PLAN"),
		RunE: a.inEnvironment(func(ctx context.Context, w work, args []string) error {
			p, err := w.Plan(ctx, w.project, w.environment, args[0])
			if err != nil {
				return err
			}
			return a.showPlan(p)
		}),
	}
}

func (a *application) showPlan(p wire.Plan) error {
	return a.show(p, func(s render.Screen) error {
		return s.Fields(
			render.Field{Name: "Plan", Value: p.ID},
			render.Field{Name: "Name", Value: p.Name},
			render.Field{Name: "Rate", Value: rate(p.Rate) + " requests per second"},
			render.Field{Name: "Burst", Value: number(p.Burst) + " requests"},
			render.Field{Name: "Quota", Value: quota(p)},
		)
	})
}

func rate(r float64) string { return strconv.FormatFloat(r, 'f', -1, 64) }

// quota shows e.g. "1000 per day".
func quota(p wire.Plan) string {
	if p.Quota == nil || p.QuotaPeriod == nil {
		return "none"
	}
	return number(*p.Quota) + " per " + *p.QuotaPeriod
}

func (a *application) planDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete PLAN", Short: "Delete a usage plan that no key uses", SuggestFor: []string{"remove", "rm"},
		Example: `  sluice plan delete plan-starter`,
		Args:    takes("PLAN"),
	}
	confirm := a.confirmation(cmd)
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		if err := confirm.ask(ctx, "Delete "+args[0]+" of "+w.project+"/"+w.environment+"?"); err != nil {
			return err
		}
		if err := w.DeletePlan(ctx, w.project, w.environment, args[0]); err != nil {
			return err
		}
		return a.done("Plan %s is deleted.", args[0])
	})
	return cmd
}
