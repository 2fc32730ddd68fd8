package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) keyUsage() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use: "usage KEY", Short: "Show an API key's usage, day by day",
		Long: `Show an API key's usage: a bar for each UTC day, and the totals. Without --from and --to
these are the last 90 days; 92 are kept. In a bar, █ is allowed, ▒ denied by the rate and
░ denied by the quota.`,
		Example: `  sluice key usage key-ab12cd34 --from 2026-03-01 --to 2026-03-14`,
		Args:    takes("KEY"),
	}
	cmd.Flags().StringVar(&from, "from", "", "first UTC day, e.g. 2026-03-01")
	cmd.Flags().StringVar(&to, "to", "", "last UTC day")
	cmd.RunE = a.inProject(func(ctx context.Context, w work, args []string) error {
		u, err := w.Usage(ctx, w.project, args[0], from, to)
		if err != nil {
			return err
		}
		return a.show(u, func(s render.Screen) error { return drawUsage(s, u) })
	})
	return cmd
}

// drawUsage draws a table whose last column is a bar, in what room there is.
func drawUsage(s render.Screen, u wire.Usage) error {
	if err := s.Line("%s, %s to %s (UTC), last seen %s", u.KeyID, u.From, u.To, dayOf(u.LastSeen)); err != nil {
		return err
	}
	columns := []render.Column{
		{Name: "DAY", Whole: true},
		{Name: "ALLOWED", Right: true, Whole: true},
		{Name: "RATE", Right: true, Whole: true},
		{Name: "QUOTA", Right: true, Whole: true},
	}
	var most uint64
	for _, d := range u.Days {
		most = max(most, sum(d.UsageTotals))
	}
	rows := make([][]render.Cell, 0, len(u.Days)+1)
	for _, d := range u.Days {
		rows = append(rows, usageRow(d.Date, d.UsageTotals))
	}
	rows = append(rows, usageRow("total", u.Totals))
	return s.Bars(columns, rows, func(row, width int) string {
		if row == len(u.Days) {
			return ""
		}
		d := u.Days[row]
		return s.Bar(width, most,
			render.Part{Value: d.Allowed, Mark: '█', Tone: render.Good},
			render.Part{Value: d.RateDenied, Mark: '▒', Tone: render.Bad},
			render.Part{Value: d.QuotaDenied, Mark: '░', Tone: render.Watch})
	})
}

func usageRow(name string, t wire.UsageTotals) []render.Cell {
	return render.Plainly(name, count(t.Allowed), count(t.RateDenied), count(t.QuotaDenied))
}

func sum(t wire.UsageTotals) uint64 { return t.Allowed + t.RateDenied + t.QuotaDenied }

func count(n uint64) string { return strconv.FormatUint(n, 10) }
