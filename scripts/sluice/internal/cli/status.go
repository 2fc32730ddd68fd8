package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const statusDays = 7

type environmentStatus struct {
	Usage wire.EnvironmentUsage `json:"usage"`
	Apps  []wire.App            `json:"apps"`
}

func (a *application) status() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "status", Short: "Show the status of an environment",
		Long: `Show the status of an environment: the requests of the last seven UTC days, the keys and
service tokens that need attention, and each app with its gate and current revision. In a bar,
█ is allowed, ▒ denied by the rate and ░ denied by the quota.`,
		Example: `  sluice status --project shop --environment prod`,
	}, showResult(a.showStatus, a.readStatus))
}

func (a *application) readStatus(ctx context.Context, w work) (s environmentStatus, err error) {
	from := a.env.Now().UTC().AddDate(0, 0, 1-statusDays).Format(time.DateOnly)
	if s.Usage, err = w.EnvironmentUsage(ctx, w.project, w.environment, from, ""); err != nil {
		return s, err
	}
	s.Apps, err = client.Collect(w.Apps(ctx, w.project, w.environment))
	return s, err
}

func (a *application) showStatus(of environmentStatus) error {
	return a.show(of, func(s render.Screen) error {
		u, k := of.Usage, of.Usage.Keys
		if err := s.Line("%s, %s to %s (UTC)", u.Environment, u.From, u.To); err != nil {
			return err
		}
		if err := drawUsage(s, u.UsageReport, 0); err != nil {
			return err
		}
		err := s.Line("\nKeys: %d active, %d disabled, %d expired, %d revoked", k.Active, k.Disabled, k.Expired, k.Revoked)
		if err != nil {
			return err
		}
		if n := u.Checkers.Denying; n > 0 {
			if err := s.Line("  Checkers that deny all requests or have stopped: %d of %d", n, n+u.Checkers.Proving); err != nil {
				return err
			}
		}
		if err := a.showAttention(s, u); err != nil {
			return err
		}
		return showAppStates(s, of.Apps)
	})
}

func (a *application) showAttention(s render.Screen, u wire.EnvironmentUsage) error {
	for _, one := range u.Attention {
		if err := s.Line("  %s", a.attentionText(one)); err != nil {
			return err
		}
	}
	for _, t := range u.LeakedTokens {
		if err := s.Line("  Service token %s: Leaked. Revoked after a report by %s at %s.", t.Name, t.By, stamp(t.At)); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) attentionText(k wire.KeyAttention) string {
	name := k.KeyID
	if k.Name != "" {
		name = fmt.Sprintf("%s (%s)", k.Name, k.KeyID)
	}
	return name + ": " + k.Label(a.env.Now()) + ". " + k.Why(stamp)
}

func showAppStates(s render.Screen, apps []wire.App) error {
	if len(apps) == 0 {
		return s.Line("\nNo apps.")
	}
	if err := s.Line(""); err != nil {
		return err
	}
	rows := make([][]render.Cell, len(apps))
	for i, p := range apps {
		deployed, status := "", ""
		if p.Deployed != nil {
			deployed, status = minute(p.Deployed.At), p.Deployed.Status
		}
		rows[i] = render.Plainly(p.Name, p.Gate.State, number(p.Revision), status, deployed, p.Gate.Message)
		rows[i][1].Tone, rows[i][3].Tone = gateTone(p.Gate.State), deployTone(wire.Deployment{Status: status})
	}
	return s.Table([]render.Column{
		{Name: "APP", Whole: true},
		{Name: "GATE", Whole: true},
		{Name: "REVISION", Right: true},
		{Name: "STATUS"},
		{Name: "DEPLOYED", Rank: 1},
		{Name: "NOTE", Rank: 2},
	}, rows)
}
