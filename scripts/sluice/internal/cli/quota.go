package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
)

func (a *application) quotaGroup() *cobra.Command {
	return a.group("quota", "Hard quotas of API keys", a.quotaRelease())
}

func (a *application) quotaRelease() *cobra.Command {
	cmd := &cobra.Command{
		Use: "release KEY", Short: "Return what lost checkers hold of a hard quota",
		Long: `Return what lost checkers hold of a key's hard quota in the current period. A checker
holds requests that it has not spent yet. If its pod is lost, with its node for example, they
stay reserved until the period ends.

A checker counts as lost 95 seconds after its last sign of life. The command fails while every
checker that holds a part may still allow requests. Until the period ends, the quota holds for
the released requests as a soft one does: requests that a lost checker had allowed and not
counted yet are allowed again. Only owners and admins can release a quota.`,
		Example: `  sluice quota release key-ab12cd34 --yes`,
	}
	confirm := a.confirmation(cmd, insists)
	return a.onKey(cmd, func(ctx context.Context, w work) error {
		if err := confirm.ask(ctx, "Release what lost checkers hold of the quota of "+w.args[0]+"?", w.args[0]); err != nil {
			return err
		}
		r, err := w.ReleaseQuota(ctx, w.project, w.args[0])
		if err != nil {
			return err
		}
		return a.showFields(r, []render.Field{
			{Name: "Released", Value: number(r.Released) + " requests"},
			{Name: "Held", Value: number(r.Held) + " requests, spent ones included"},
		})
	})
}
