package usage

import "github.com/sluicegate/sluice/shared/problem"

const (
	// RetentionDays is the number of days for which usage is stored, including today (promise U3).
	RetentionDays = 92
	// ShownDays is the default number of days of a report.
	ShownDays = 90
)

// EarliestKept returns the first day for which usage is stored.
func EarliestKept(today Day) Day { return today - (RetentionDays - 1) }

// Window is a range of stored days, both ends included.
type Window struct{ From, To Day }

// NewWindow returns the window of a report (promises U4, U5). A nil to is today. A nil from is the
// first of the last [ShownDays] days, or the earliest stored day if to is before that. The window
// is limited to the stored days until today.
//
// NewWindow returns window_expired if to is before the earliest stored day. It returns
// invalid_window if from is after to or today.
func NewWindow(from, to *Day, today Day) (Window, error) {
	earliest := EarliestKept(today)
	w := Window{From: today - (ShownDays - 1), To: today}
	if from != nil && to != nil && *from > *to {
		return Window{}, problem.FromCode(problem.InvalidWindow)
	}
	if to != nil {
		w.To = min(*to, today)
	}
	switch {
	case from != nil:
		w.From = *from
	case w.From > w.To:
		w.From = earliest
	}
	if w.To < earliest {
		return Window{}, problem.FromCode(problem.WindowExpired)
	}
	if w.From > w.To {
		return Window{}, problem.FromCode(problem.InvalidWindow)
	}
	w.From = max(w.From, earliest)
	return w, nil
}

// LastDays returns the window of the last n days, including today.
func LastDays(n int, today Day) Window { return Window{From: today - Day(n-1), To: today} }

// Report is a key's usage in a window (promise U4).
type Report struct {
	Window Window
	Totals Totals
	Days   []Dated // one per day of the window

	// LastSeen is the last stored day with requests, in the window or not. Seen is false if there
	// is none.
	LastSeen Day
	Seen     bool
}

// NewReport returns the report of a history. It ignores days after today, which exist if a checker's
// clock is ahead.
func NewReport(w Window, h History, today Day) Report {
	r := Report{Window: w, Days: make([]Dated, 0, w.To-w.From+1)}
	for day := w.From; day <= w.To; day++ {
		t := h.Totals(day)
		r.Days = append(r.Days, Dated{Day: day, Totals: t})
		r.Totals = r.Totals.Plus(t)
	}
	r.LastSeen, r.Seen = h.LastSeen(today)
	return r
}
