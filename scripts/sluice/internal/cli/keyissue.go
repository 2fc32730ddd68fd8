package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) keyCreate() *cobra.Command {
	var plan, name, expires string
	var apps []string
	var quiet bool
	cmd := &cobra.Command{
		Use: "create", Short: "Create an API key and show it, this once", SuggestFor: []string{"add", "new"},
		Long: `Create an API key. The full key is shown once and kept nowhere: a lost key can only be
replaced. With --quiet it is all that is printed.

Without --app the key opens every app of its environment. --expires takes a day, through
whose end in UTC the key stays valid, or an RFC 3339 timestamp.`,
		Example: `  sluice key create --plan plan-starter --name "Checkout team" --app hello --expires 2027-01-31
  KEY=$(sluice key create --plan plan-starter --quiet)`,
		Args: takes(),
	}
	cmd.Flags().StringVar(&plan, "plan", "", "usage plan of the key, e.g. plan-starter (required)")
	cmd.Flags().StringVar(&name, "name", "", "display name, which the apps get to see")
	cmd.Flags().StringArrayVar(&apps, "app", nil, "app that the key opens; can be given more than once")
	cmd.Flags().StringVar(&expires, "expires", "", "last day (2027-01-31) or RFC 3339 timestamp")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the key alone")
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, _ []string) error {
		if plan == "" {
			return usage("a key needs --plan")
		}
		ends, err := expiry(cmd, expires)
		if err != nil {
			return err
		}
		k, full, err := w.CreateKey(ctx, w.project, w.environment, wire.CreateKey{
			Plan: &plan, Name: name, Apps: apps, ExpiresAt: ends,
		})
		if err != nil {
			return err
		}
		return a.showIssued(k, full, quiet)
	})
	return cmd
}

// expiry takes a day as the instant at which it ends, and leaves anything else to the
// server; nil is no expiry. An empty one is a variable that a script forgot to set: it
// must not make a key that never expires.
func expiry(cmd *cobra.Command, text string) (*string, error) {
	if !cmd.Flags().Changed("expires") {
		return nil, nil //nolint:nilnil // no expiry is a value of the API's
	}
	if text == "" {
		return nil, usage("--expires is empty")
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		text = day.AddDate(0, 0, 1).Format(time.RFC3339)
	}
	return &text, nil
}

func (a *application) keyRotate() *cobra.Command {
	var grace time.Duration
	var quiet bool
	cmd := &cobra.Command{
		Use: "rotate KEY", Short: "Give an API key a new secret, shown this once",
		Long: `Give an API key a new secret. Id, prefix, plan and usage go on; the old secret stays
valid for --grace, 0s to 720h.`,
		Example: `  sluice key rotate key-ab12cd34 --grace 48h`,
		Args:    takes("KEY"),
	}
	cmd.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long the old secret stays valid")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the key alone")
	cmd.RunE = a.inProject(func(ctx context.Context, w work, args []string) error {
		k, full, err := w.RotateKey(ctx, w.project, args[0], grace)
		if err != nil {
			return err
		}
		return a.showIssued(k, full, quiet)
	})
	return cmd
}

// showIssued shows a full key, with a warning beside it.
func (a *application) showIssued(k wire.Key, full client.FullKey, quiet bool) error {
	if quiet {
		return a.screen().Line("%s", string(full))
	}
	a.note("Keep this key now: it is shown this once and cannot be recovered.")
	return a.show(wire.IssuedKey{Key: k, FullKey: string(full)}, func(s render.Screen) error {
		fields := append([]render.Field{{Name: "API key", Value: string(full)}}, a.keyFields(k)...)
		return s.Fields(fields...)
	})
}
