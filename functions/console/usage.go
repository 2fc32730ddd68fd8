package console

import (
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// usagePage is a key's usage: what it has used of its quota, the totals of the last
// 90 days, and a chart of the days asked for.
type usagePage struct {
	Key    keyRow
	Plan   planRow
	Quota  *quotaUse // nil without a quota
	Totals wire.UsageTotals
	Seen   string

	Form     form // of the window
	From, To input
	Quick    []quick
	Shown    *shown // nil when the window was refused
	Earliest string // the first day that is kept
}

// shown is the window that is shown.
type shown struct {
	From, To string // "14 March 2026"
	Moved    bool   // from was moved forward to the first day that is kept
	Chart    chart
	Totals   wire.UsageTotals
	Days     []wire.UsageDay // the newest first
}

// quick is a link to a window.
type quick struct {
	Label, Path string
	Current     bool
}

// showUsage shows a key's usage. A window that the API refuses is refused beside the
// field that it is about; the rest of the page does not depend on it.
func showUsage(r *request) error {
	q := r.URL.Query()
	from, to := q.Get("from"), q.Get("to")
	asked := form{Typed: q}
	var key wire.Key
	var of planRow
	var recent, window wire.Usage
	var refused error
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(func() (err error) {
		if key, err = r.key(); err == nil {
			of, err = r.planOf(key)
		}
		return err
	})
	g.Go(func() (err error) {
		recent, err = r.api.Usage(ctx, r.project, r.PathValue("key"), "", "")
		return err
	})
	if from != "" || to != "" {
		g.Go(func() error {
			window, refused = r.api.Usage(ctx, r.project, r.PathValue("key"), from, to)
			return nil // said on the page
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if from == "" && to == "" {
		window = recent
		asked = filled("from", recent.From, "to", recent.To)
	}
	if refused != nil {
		var ok bool
		if asked, ok = r.refused(refused, usageFields(q.Get("from"))); !ok {
			return refused
		}
		asked.Typed = q
	}
	return r.show("usage", page{Status: asked.Status(), Title: "Usage of " + r.keyRow(key, nil).Label, Tab: tabKeys},
		r.usagePage(key, of, recent, window, asked))
}

// usageFields says which field of the window a code is about: a date that cannot be
// read is the first that is none.
func usageFields(from string) map[string]string {
	date := "to"
	if _, err := time.Parse(time.DateOnly, from); from != "" && err != nil {
		date = "from"
	}
	return map[string]string{"invalid_date": date, "invalid_parameter": date, "invalid_window": "from", "window_expired": "to"}
}

func (r *request) usagePage(key wire.Key, of planRow, recent, window wire.Usage, asked form) usagePage {
	now := r.s.now().UTC()
	row := r.keyRow(key, map[string]string{of.ID: of.Name})
	p := usagePage{
		Key: row, Plan: of, Quota: quotaOf(of.Plan, recent.Days, now),
		Totals: recent.Totals, Seen: "Never", Form: asked,
		From:  asked.Text("from", "From", "").As("date").Need(),
		To:    asked.Text("to", "To", "").As("date").Need(),
		Quick: quicks(row.Path+"/usage", window, now),
	}
	p.Earliest = longDate(usage.EarliestKept(usage.DayOf(now)).String())
	if recent.LastSeen != nil {
		p.Seen = seenText(*recent.LastSeen, now)
	}
	if asked.Refusal == nil {
		p.Shown = shownOf(window, asked.Value("from"))
	}
	return p
}

func shownOf(w wire.Usage, asked string) *shown {
	newestFirst := slices.Clone(w.Days)
	slices.Reverse(newestFirst)
	return &shown{
		From: longDate(w.From), To: longDate(w.To), Moved: asked != "" && asked < w.From,
		Chart: newChart(w.Days), Totals: w.Totals, Days: newestFirst,
	}
}

// quicks are the windows that are asked for most.
func quicks(path string, w wire.Usage, now time.Time) []quick {
	var all []quick
	for _, q := range []struct {
		label string
		days  int
	}{{"7 days", 7}, {"30 days", 30}, {"90 days", 90}} {
		from, to := now.AddDate(0, 0, 1-q.days).Format(time.DateOnly), now.Format(time.DateOnly)
		all = append(all, quick{
			Label: q.label, Path: path + "?from=" + from + "&to=" + to, Current: w.From == from && w.To == to,
		})
	}
	return all
}

// quotaUse is what a key has used of its quota in the current period.
type quotaUse struct {
	Used, Quota string // "1,200"
	Period      string // "today", "this week", "this month"
	Percent     string // "12%", of the bar
	Share       string // "12 %", for people
	Full        bool
	Resets      time.Time
}

// quotaOf adds up the days of the current period. Denied requests cost no quota. nil
// without a quota.
func quotaOf(p wire.Plan, days []wire.UsageDay, now time.Time) *quotaUse {
	if p.Quota == nil || p.QuotaPeriod == nil || *p.Quota < 1 {
		return nil
	}
	period := plan.Period(*p.QuotaPeriod)
	first := period.Start(now).Format(time.DateOnly)
	var used uint64
	for _, d := range days {
		if d.Date >= first {
			used += d.Allowed
		}
	}
	share := min(float64(used)/float64(*p.Quota)*100, 100)
	return &quotaUse{
		Used: grouped(used), Quota: grouped(*p.Quota), Period: periodText(period),
		Percent: percent(share, "%"), Share: percent(share, " %"), Full: used >= uint64(*p.Quota), Resets: period.End(now),
	}
}

func periodText(p plan.Period) string {
	if p == plan.Day {
		return "today"
	}
	return "this " + string(p)
}

// percent rounds down, so that 100 means all of it, and shows that there is something.
func percent(share float64, unit string) string {
	if share > 0 && share < 1 {
		return number(0.5) + unit
	}
	return number(float64(int(share))) + unit
}
