package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/shared/wire"
)

// limits are the flags of a plan.
type limits struct {
	rate   float64
	burst  int64
	quota  int64
	period string
}

func (a *application) limits(cmd *cobra.Command) *limits {
	l := &limits{}
	cmd.Flags().Float64Var(&l.rate, "rate", 0, "requests per second, 0.01 to 100000")
	cmd.Flags().Int64Var(&l.burst, "burst", 0, "requests at once, 1 to 1000000")
	cmd.Flags().Int64Var(&l.quota, "quota", 0, "requests per period, 1 to 10^12")
	cmd.Flags().StringVar(&l.period, "quota-period", "", "period of the quota: day, week or month, in UTC")
	a.fixed(cmd, "quota-period", "day", "week", "month")
	return l
}

func (a *application) planCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a usage plan", SuggestFor: []string{"add", "new"},
		Long: `Create a usage plan. Its id is made from its name: "Starter" is plan-starter. A quota
comes with a period; without both there is no quota.`,
		Example: `  sluice plan create Starter --rate 10 --burst 20 --quota 10000 --quota-period day`,
		Args:    takes("NAME"),
	}
	l := a.limits(cmd)
	changed := cmd.Flags().Changed
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		if !changed("rate") || !changed("burst") {
			return usage("a plan needs --rate and --burst")
		}
		p := wire.CreatePlan{Name: &args[0], Rate: &l.rate, Burst: &l.burst}
		if changed("quota") {
			p.Quota = &l.quota
		}
		if changed("quota-period") {
			p.QuotaPeriod = &l.period
		}
		made, err := w.CreatePlan(ctx, w.project, w.environment, p)
		if err != nil {
			return err
		}
		return a.showPlan(made)
	})
	return cmd
}

func (a *application) planUpdate() *cobra.Command {
	var name string
	var noQuota bool
	cmd := &cobra.Command{
		Use: "update PLAN", Short: "Change a usage plan", SuggestFor: []string{"edit", "set"},
		Long: `Change the given fields of a usage plan; the checkers follow within seconds. The id
stays when the name changes.`,
		Example: `  sluice plan update plan-starter --rate 20 --burst 40
  sluice plan update plan-starter --no-quota`,
		Args: takes("PLAN"),
	}
	l := a.limits(cmd)
	cmd.Flags().StringVar(&name, "name", "", "new display name")
	cmd.Flags().BoolVar(&noQuota, "no-quota", false, "take the quota away")
	cmd.MarkFlagsMutuallyExclusive("no-quota", "quota")
	cmd.MarkFlagsMutuallyExclusive("no-quota", "quota-period")
	changed := cmd.Flags().Changed
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		var u wire.UpdatePlan
		given(changed("name"), &u.Name, name)
		given(changed("rate"), &u.Rate, l.rate)
		given(changed("burst"), &u.Burst, l.burst)
		given(changed("quota"), &u.Quota, l.quota)
		given(changed("quota-period"), &u.QuotaPeriod, l.period)
		if noQuota {
			u.Quota, u.QuotaPeriod = wire.Null[int64](), wire.Null[string]()
		}
		if u == (wire.UpdatePlan{}) {
			return usage("nothing to change: pass --name, --rate, --burst, --quota, --quota-period or --no-quota")
		}
		p, err := w.UpdatePlan(ctx, w.project, w.environment, args[0], u)
		if err != nil {
			return err
		}
		return a.showPlan(p)
	})
	return cmd
}

// given fills a field of a change in, when its flag was passed.
func given[T any](changed bool, field *wire.Optional[T], value T) {
	if changed {
		*field = wire.Some(value)
	}
}
