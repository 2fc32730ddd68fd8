package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	storedDays = 92
	drawnDays  = 14
)

type usageFlags struct {
	from, to string
	days     int
	all      bool
	drawn    int // days with a bar; 0 means all
}

func (a *application) keyUsage() *cobra.Command {
	var f usageFlags
	cmd := &cobra.Command{
		Use: "usage KEY", Short: "Show an API key's usage per day",
		Long: `Show an API key's usage: the used part of its quota, the totals of the last 90 UTC days, and a
bar for each of the last 14. --days, --all, --from and --to select other days for the totals
and the bars; 92 days are stored. Consecutive days without requests share a line.

In a bar, █ is allowed, ▒ denied by the rate and ░ denied by the quota.`,
		Example: `  sluice key usage key-ab12cd34
  sluice key usage key-ab12cd34 --days 30
  sluice key usage key-ab12cd34 --from 2026-03-01 --to 2026-03-14`,
	}
	cmd.Flags().StringVar(&f.from, "from", "", "first UTC day, e.g. 2026-03-01")
	cmd.Flags().StringVar(&f.to, "to", "", "last UTC day")
	cmd.Flags().IntVar(&f.days, "days", 0, "number of days, up to today")
	cmd.Flags().BoolVar(&f.all, "all", false, "show all stored days")
	for _, other := range []string{"from", "to", "all"} {
		cmd.MarkFlagsMutuallyExclusive("days", other)
	}
	cmd.MarkFlagsMutuallyExclusive("all", "from")
	cmd.MarkFlagsMutuallyExclusive("all", "to")
	return a.onKey(cmd, func(ctx context.Context, w work) error {
		f, err := f.window(cmd.Flags().Changed("days"), a.env.Now())
		if err != nil {
			return err
		}
		return a.showUsage(ctx, w, f)
	})
}

// window sets the first day for --days and --all, and the number of days with a bar.
func (f usageFlags) window(days bool, now time.Time) (usageFlags, error) {
	switch {
	case days && f.days < 1:
		return f, usage("--days must be at least 1")
	case f.all:
		f.days, days = storedDays, true
	}
	if days {
		f.from = now.UTC().AddDate(0, 0, 1-f.days).Format(time.DateOnly)
	}
	if f.from == "" && f.to == "" {
		f.drawn = drawnDays
	}
	return f, nil
}

func (a *application) showUsage(ctx context.Context, w work, f usageFlags) error {
	u, err := w.Usage(ctx, w.project, w.args[0], f.from, f.to)
	if err != nil {
		return err
	}
	if len(u.Incomplete) > 0 {
		a.note("Counts of these days are incomplete because a stored counter is damaged: %s.", strings.Join(u.Incomplete, ", "))
	}
	var k wire.Key
	if a.format().ForPeople() {
		if k, err = w.Key(ctx, w.project, u.KeyID); err != nil {
			return err
		}
	}
	return a.show(u, func(s render.Screen) error {
		if err := s.Line("%s, %s to %s (UTC), last seen %s", u.KeyID, u.From, u.To, dayOf(u.LastSeen)); err != nil {
			return err
		}
		if k.Usage != nil && k.Usage.Quota != nil {
			if err := drawQuota(s, *k.Usage.Quota); err != nil {
				return err
			}
		}
		return drawUsage(s, u.UsageReport, f.drawn)
	})
}

// drawQuota draws, e.g., "Quota:  ████····  500 of 1000 per day (50%), resets 2026-03-15".
func drawQuota(s render.Screen, q wire.QuotaUse) error {
	quota := uint64(max(q.Quota, 0))
	left, tone := quota-min(q.Used, quota), render.Good
	if left == 0 {
		tone = render.Bad
	}
	text := fmt.Sprintf("%d of %d per %s (%s), resets %s", q.Used, quota, q.Period, shareOf(float64(q.Used)/float64(quota)), q.ResetsAt.UTC().Format(time.DateOnly))
	return s.Meter("Quota", text, max(quota, q.Used),
		render.Part{Value: q.Used, Mark: '█', Tone: tone},
		render.Part{Value: left, Mark: '·', Tone: render.Faint})
}

// shareOf formats a share, rounded down: 100% means all. A positive share below 1% is not 0%.
func shareOf(part float64) string {
	percent := math.Floor(100 * part)
	if percent < 1 && part > 0 {
		return "under 1%"
	}
	return fmt.Sprintf("%.0f%%", percent)
}

func quotaShare(k wire.Key) (text string, tone render.Tone) {
	if k.Usage == nil || k.Usage.Quota == nil {
		return "", render.Plain
	}
	part := float64(k.Usage.Quota.Used) / float64(k.Usage.Quota.Quota)
	if part >= 1 {
		tone = render.Bad
	}
	return shareOf(part), tone
}

type usageLine struct {
	name string
	wire.UsageTotals
	bar bool
}

// usageLines returns the lines of a report. Days before the last drawn days share a line, as do
// consecutive days without requests.
func usageLines(u wire.UsageReport, drawn int) []usageLine {
	days := u.Days
	var lines []usageLine
	if before := len(days) - drawn; drawn > 0 && before > 0 {
		earlier := usageLine{name: "earlier"}
		for _, d := range days[:before] {
			earlier.Allowed += d.Allowed
			earlier.RateDenied += d.RateDenied
			earlier.QuotaDenied += d.QuotaDenied
		}
		lines, days = append(lines, earlier), days[before:]
	}
	for i := 0; i < len(days); {
		end := i
		for end < len(days) && days[end].Requests() == 0 {
			end++
		}
		if idle := end - i; idle > 1 {
			lines = append(lines, usageLine{name: number(int64(idle)) + " days"})
			i = end
			continue
		}
		lines = append(lines, usageLine{days[i].Date, days[i].UsageTotals, true})
		i++
	}
	return append(lines, usageLine{name: "total", UsageTotals: u.Totals})
}

func drawUsage(s render.Screen, u wire.UsageReport, drawn int) error {
	columns := []render.Column{
		{Name: "DAY", Whole: true},
		{Name: "ALLOWED", Right: true, Whole: true},
		{Name: "RATE", Right: true, Whole: true},
		{Name: "QUOTA", Right: true, Whole: true},
	}
	lines := usageLines(u, drawn)
	var most uint64
	rows := make([][]render.Cell, 0, len(lines))
	for _, l := range lines {
		if l.bar {
			most = max(most, l.Requests())
		}
		rows = append(rows, render.Plainly(l.name, count(l.Allowed), count(l.RateDenied), count(l.QuotaDenied)))
	}
	return s.Bars(columns, rows, func(row, width int) string {
		l := lines[row]
		if !l.bar {
			return ""
		}
		return s.Bar(width, most,
			render.Part{Value: l.Allowed, Mark: '█', Tone: render.Good},
			render.Part{Value: l.RateDenied, Mark: '▒', Tone: render.Bad},
			render.Part{Value: l.QuotaDenied, Mark: '░', Tone: render.Watch})
	})
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }
