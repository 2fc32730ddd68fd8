package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) keyUpdate() *cobra.Command {
	var name, plan, expires string
	var apps []string
	var allApps, never bool
	cmd := &cobra.Command{
		Use: "update KEY", Short: "Change an API key's name, plan, apps or expiry", SuggestFor: []string{"edit", "set"},
		Example: `  sluice key update key-ab12cd34 --plan plan-gold --expires 2027-06-30
  sluice key update key-ab12cd34 --all-apps --never-expires`,
		Args: takes("KEY"),
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "display name; empty takes it away")
	f.StringVar(&plan, "plan", "", "usage plan")
	f.StringArrayVar(&apps, "app", nil, "app that the key opens, in place of all before; can be given more than once")
	f.BoolVar(&allApps, "all-apps", false, "open every app of the environment")
	f.StringVar(&expires, "expires", "", "last day (2027-01-31) or RFC 3339 timestamp")
	f.BoolVar(&never, "never-expires", false, "take the expiry away")
	cmd.MarkFlagsMutuallyExclusive("app", "all-apps")
	cmd.MarkFlagsMutuallyExclusive("expires", "never-expires")
	cmd.RunE = a.inProject(func(ctx context.Context, w work, args []string) error {
		var u wire.UpdateKey
		given(f.Changed("name"), &u.Name, name)
		given(f.Changed("plan"), &u.Plan, plan)
		given(f.Changed("app"), &u.Apps, apps)
		given(allApps, &u.Apps, []string{})
		ends, err := expiry(cmd, expires)
		if err != nil {
			return err
		}
		u.ExpiresAt = wire.Optional[string]{Set: ends != nil || never, Value: ends}
		if u == (wire.UpdateKey{}) {
			return usage("nothing to change: pass --name, --plan, --app, --all-apps, --expires or --never-expires")
		}
		k, err := w.UpdateKey(ctx, w.project, args[0], u)
		if err != nil {
			return err
		}
		return a.showKey(k)
	})
	return cmd
}

func (a *application) keyDisable() *cobra.Command {
	return &cobra.Command{
		Use: "disable KEY", Short: "Switch an API key off, for now",
		Long:    `Switch an API key off. It is refused within seconds; "sluice key enable" switches it on again.`,
		Example: `  sluice key disable key-ab12cd34`,
		Args:    takes("KEY"),
		RunE: a.inProject(func(ctx context.Context, w work, args []string) error {
			k, err := w.DisableKey(ctx, w.project, args[0])
			if err != nil {
				return err
			}
			return a.showKey(k)
		}),
	}
}

func (a *application) keyEnable() *cobra.Command {
	return &cobra.Command{
		Use: "enable KEY", Short: "Switch a disabled API key on",
		Example: `  sluice key enable key-ab12cd34`,
		Args:    takes("KEY"),
		RunE: a.inProject(func(ctx context.Context, w work, args []string) error {
			k, err := w.EnableKey(ctx, w.project, args[0])
			if err != nil {
				return err
			}
			return a.showKey(k)
		}),
	}
}

func (a *application) keyRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke KEY", Short: "End an API key for good", SuggestFor: []string{"delete", "remove", "rm"},
		Long: `End an API key for good. It is refused everywhere within seconds, and never later than
90 seconds. It cannot be taken back.`,
		Example: `  sluice key revoke key-ab12cd34 --yes`,
		Args:    takes("KEY"),
	}
	confirm := a.confirmation(cmd)
	cmd.RunE = a.inProject(func(ctx context.Context, w work, args []string) error {
		if err := confirm.ask(ctx, "Revoke "+args[0]+" for good?"); err != nil {
			return err
		}
		k, err := w.RevokeKey(ctx, w.project, args[0])
		if err != nil {
			return err
		}
		return a.showKey(k)
	})
	return cmd
}
