package console

import (
	"time"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// usageCard is a key's usage per day, of the days asked for.
type usageCard struct {
	Form     form // of the window
	From, To input
	Quick    []quick
	Shown    *chart // nil when the window was refused
	Moved    bool   // from was moved forward to the first day that is kept
	Earliest string // the first day that is kept
	Path     string // of the page

	lastSeen *string // as the report says, which may be newer than what the key's own answer does
}

// quick is a link to a window.
type quick struct {
	Label, Path string
	Current     bool
}

// usage reads the usage of the request's key: of the window that the address names, or of
// the last seven days. A window that the API refuses is refused beside the field that it is
// about; the rest of the page does not depend on it.
func (r *request) usage() (usageCard, error) {
	q, now := r.URL.Query(), r.s.now().UTC()
	from, to := q.Get("from"), q.Get("to")
	if from == "" && to == "" {
		from = now.AddDate(0, 0, 1-weekDays).Format(time.DateOnly)
	}
	card := usageCard{Path: r.URL.EscapedPath(), Earliest: longDate(usage.EarliestKept(usage.DayOf(now)).String())}
	window, err := r.api.Usage(r.Context(), r.project, r.PathValue("key"), from, to)
	switch {
	case err == nil:
		shown := newChart(window.Days, window.Incomplete...)
		card.lastSeen = window.LastSeen
		card.Shown, card.Moved = &shown, from != "" && from < window.From
		card.Form = filled("from", window.From, "to", window.To)
	case gone(err):
		return card, err
	default:
		var ok bool
		if card.Form, ok = r.refused(err, usageFields(from)); !ok {
			return card, err
		}
		card.Form.Typed = q
	}
	card.From = card.Form.Text("from", "From", "").As("date").Need()
	card.To = card.Form.Text("to", "To", "").As("date").Need()
	card.Quick = quicks(card.Path, window, now)
	return card, nil
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
	Used, Quota string  // "1,200"
	Period      string  // "today", "this week", "this month"
	Percent     string  // "12%", of the bar
	Share       string  // "12 %", for people
	Part        float64 // of one
	Full        bool
	High        bool // nearly, or quite
	Resets      time.Time
}

// quotaOf is how much of its quota a key has used; nil without a quota.
func quotaOf(k wire.Key) *quotaUse {
	if k.Usage == nil || k.Usage.Quota == nil || k.Usage.Quota.Quota < 1 {
		return nil
	}
	q := k.Usage.Quota
	part := min(float64(q.Used)/float64(q.Quota), 1)
	share := 100 * part
	return &quotaUse{
		Used: grouped(q.Used), Quota: grouped(q.Quota), Period: periodText(plan.Period(q.Period)),
		Percent: percent(share, "%"), Share: percent(share, " %"), Part: part, Full: q.Used >= uint64(q.Quota), High: part >= wire.HighShare, Resets: q.ResetsAt,
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
