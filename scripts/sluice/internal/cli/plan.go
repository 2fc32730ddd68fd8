package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) planGroup() *cobra.Command {
	return a.group("plan", "Manage usage plans: rate, burst and quota", a.planList(), a.planCreate(), a.planShow(), a.planForecast(), a.planUpdate(), a.planDelete())
}

func (a *application) planList() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "list", Short: "List an environment's usage plans", SuggestFor: []string{"ls"},
		Example: `  sluice plan list --project shop --environment prod
  sluice plan list --jq '.items[].id'`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "plans", w.Plans(ctx, w.project, w.environment), []render.Column{
			{Name: "PLAN", Whole: true},
			{Name: "NAME"},
			{Name: "RATE", Right: true, Whole: true},
			{Name: "BURST", Right: true, Whole: true},
			{Name: "QUOTA"},
		}, func(p wire.Plan) []render.Cell {
			return render.Plainly(p.ID, p.Name, rate(p.Rate), number(p.Burst), quota(p))
		})
	})
}

func (a *application) planShow() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "show PLAN", Short: "Show a usage plan", SuggestFor: []string{"get", "describe"},
		Example: `  sluice plan show plan-starter`,
	}, showResult(a.showPlan, func(ctx context.Context, w work) (wire.Plan, error) {
		return w.Plan(ctx, w.project, w.environment, w.args[0])
	}))
}

func (a *application) showPlan(p wire.Plan) error {
	return a.showFields(p, []render.Field{
		{Name: "Plan", Value: p.ID},
		{Name: "Name", Value: p.Name},
		{Name: "Rate", Value: rate(p.Rate) + " requests per second"},
		{Name: "Burst", Value: number(p.Burst) + " requests"},
		{Name: "Quota", Value: quota(p)},
	})
}

func rate(r float64) string { return strconv.FormatFloat(r, 'f', -1, 64) }

func quota(p wire.Plan) string {
	if p.Quota == nil || p.QuotaPeriod == nil {
		return "none"
	}
	text := number(*p.Quota) + " per " + *p.QuotaPeriod
	if p.QuotaMode != nil && plan.Mode(*p.QuotaMode) == plan.Hard {
		text += ", hard"
	}
	return text
}

type limits struct {
	rate   float64
	burst  int64
	quota  int64
	period string
	mode   string
}

// change returns a change of the limits whose flags are set.
func (l *limits) change(set func(flag string) bool) wire.UpdatePlan {
	return wire.UpdatePlan{
		Rate: wire.If(set("rate"), &l.rate), Burst: wire.If(set("burst"), &l.burst),
		Quota: wire.If(set("quota"), &l.quota), QuotaPeriod: wire.If(set("quota-period"), &l.period), QuotaMode: wire.If(set("quota-mode"), &l.mode),
	}
}

func (a *application) limits(cmd *cobra.Command) *limits {
	l := &limits{}
	cmd.Flags().Float64Var(&l.rate, "rate", 0, "requests per second, 0.01 to 100000")
	cmd.Flags().Int64Var(&l.burst, "burst", 0, "maximum requests at once, 1 to 1000000")
	cmd.Flags().Int64Var(&l.quota, "quota", 0, "requests per period, 1 to 10^12")
	cmd.Flags().StringVar(&l.period, "quota-period", "", "period of the quota: "+oneOf(plan.Periods())+", in UTC")
	cmd.Flags().StringVar(&l.mode, "quota-mode", "", "mode of the quota: "+oneOf(plan.Modes())+"; a hard quota is never exceeded")
	a.fixed(cmd, "quota-period", words(plan.Periods())...)
	a.fixed(cmd, "quota-mode", words(plan.Modes())...)
	return l
}

func (a *application) planCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a usage plan", SuggestFor: []string{"add", "new"},
		Long: `Create a usage plan. Its ID is derived from its name: the plan "Starter" is plan-starter. A
quota needs a period; without both, the plan has no quota.

A quota is soft by default. A bounded number of requests can exceed a soft quota while the
checkers exchange their counts.`,
		Example: `  sluice plan create Starter --rate 10 --burst 20 --quota 10000 --quota-period day
  sluice plan create Paid --rate 10 --burst 20 --quota 500 --quota-period day --quota-mode hard`,
	}
	l, changed := a.limits(cmd), cmd.Flags().Changed
	return a.command(inEnvironment, cmd, waitForPropagation(a.propagationFlags(cmd), "applied by", a.showPlan, func(ctx context.Context, w work) (wire.Plan, error) {
		if !changed("rate") || !changed("burst") {
			return wire.Plan{}, usage("--rate and --burst are required")
		}
		p := wire.CreatePlan{Name: &w.args[0], Rate: &l.rate, Burst: &l.burst}
		if changed("quota") {
			p.Quota = &l.quota
		}
		if changed("quota-period") {
			p.QuotaPeriod = &l.period
		}
		if changed("quota-mode") {
			p.QuotaMode = &l.mode
		}
		return w.CreatePlan(ctx, w.project, w.environment, p)
	}))
}

func (a *application) planUpdate() *cobra.Command {
	var name string
	var noQuota bool
	cmd := &cobra.Command{
		Use: "update PLAN", Short: "Change a usage plan", SuggestFor: []string{"edit", "set"},
		Long: `Change the given fields of a usage plan, and wait until every checker applies the change. A new
name does not change the ID.

On a terminal, a new quota is compared with the stored usage, as by "sluice plan forecast". If
keys used more than the new quota, the command asks for confirmation.`,
		Example: `  sluice plan update plan-starter --rate 20 --burst 40
  sluice plan update plan-starter --no-quota`,
	}
	l, changed := a.limits(cmd), cmd.Flags().Changed
	cmd.Flags().StringVar(&name, "name", "", "new display name")
	cmd.Flags().BoolVar(&noQuota, "no-quota", false, "remove the quota")
	cmd.MarkFlagsMutuallyExclusive("no-quota", "quota")
	cmd.MarkFlagsMutuallyExclusive("no-quota", "quota-period")
	cmd.MarkFlagsMutuallyExclusive("no-quota", "quota-mode")
	confirm := a.confirmation(cmd, promptOnly)
	return a.command(inEnvironment, cmd, waitForPropagation(a.propagationFlags(cmd), "applied by", a.showPlan, func(ctx context.Context, w work) (wire.Plan, error) {
		u := l.change(changed)
		u.Name = wire.If(changed("name"), &name)
		if noQuota {
			u.Quota, u.QuotaPeriod = wire.Null[int64](), wire.Null[string]()
		}
		if u == (wire.UpdatePlan{}) {
			return wire.Plan{}, usage("nothing to change: pass --name, --rate, --burst, --quota, --quota-period, --quota-mode or --no-quota")
		}
		if err := a.confirmQuota(ctx, w, confirm, u); err != nil {
			return wire.Plan{}, err
		}
		return w.UpdatePlan(ctx, w.project, w.environment, w.args[0], u)
	}))
}

func (a *application) planDelete() *cobra.Command {
	return a.removal(inEnvironment, requireName, &cobra.Command{
		Use: "delete PLAN", Short: "Delete a usage plan that no key uses", SuggestFor: []string{"remove", "rm"},
		Example: `  sluice plan delete plan-starter`,
	}, func(w work) removal {
		return removal{
			question: "Delete " + w.args[0] + " of " + w.place() + "?",
			do:       func(ctx context.Context) error { return w.DeletePlan(ctx, w.project, w.environment, w.args[0]) },
			done:     "Plan " + w.args[0] + " deleted.",
		}
	})
}
