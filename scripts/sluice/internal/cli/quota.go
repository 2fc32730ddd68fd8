package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
)

func (a *application) quotaGroup() *cobra.Command {
	return a.group("quota", "Manage hard quotas of API keys", a.quotaRelease())
}

func (a *application) quotaRelease() *cobra.Command {
	cmd := &cobra.Command{
		Use: "release KEY", Short: "Release the quota that lost checkers hold",
		Long: `Release the part of a key's hard quota that lost checkers hold in the current period. A checker
reserves requests that it has not used yet. If its pod is lost, for example with its node,
they stay reserved until the period ends.

A checker counts as lost 95 seconds after its last sign of life. The command fails while every
checker that holds a part may still allow requests. Until the period ends, the quota is soft
for the released requests: requests that a lost checker allowed but did not count are allowed
again. The command needs the role owner, or an admin.`,
		Example: `  sluice quota release key-ab12cd34 --yes`,
	}
	confirm := a.confirmation(cmd, requireYes)
	return a.onKey(cmd, func(ctx context.Context, w work) error {
		if err := confirm.ask(ctx, "Release the part of the quota of "+w.args[0]+" that lost checkers hold?", w.args[0]); err != nil {
			return err
		}
		r, err := w.ReleaseQuota(ctx, w.project, w.args[0])
		if err != nil {
			return err
		}
		return a.showFields(r, []render.Field{
			{Name: "Released", Value: number(r.Released) + " requests"},
			{Name: "Held", Value: number(r.Held) + " requests, including used ones"},
		})
	})
}
