package usage

import "github.com/sluicegate/sluice/shared/problem"

const (
	// RetentionDays is for how many days usage is kept, today among them (promise U3).
	RetentionDays = 92
	// ShownDays is how many days a report covers when it is not asked for others.
	ShownDays = 90
)

// EarliestKept is the retention cutoff: the first day of which usage is kept.
func EarliestKept(today Day) Day { return today - (RetentionDays - 1) }

// Window is a range of kept days, both ends in it.
type Window struct{ From, To Day }

// NewWindow makes the window of a report from what was asked for; nil is not
// asked for (promises U4, U5).
//
// to is moved back to today, and from forward to the earliest kept day. Left
// out, to is today, and from begins the last [ShownDays] days through today; a to
// before those takes in all that is kept up to it. A from in the future stands
// after the last day there can be, and is no window.
//
// Problems: invalid_window when from is after to; window_expired when the whole
// window is before the earliest kept day.
func NewWindow(from, to *Day, today Day) (Window, error) {
	earliest := EarliestKept(today)
	w := Window{From: today - (ShownDays - 1), To: today}
	if from != nil && to != nil && *from > *to {
		return Window{}, problem.Of(problem.InvalidWindow)
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
		return Window{}, problem.Of(problem.WindowExpired)
	}
	if w.From > w.To {
		return Window{}, problem.Of(problem.InvalidWindow)
	}
	w.From = max(w.From, earliest)
	return w, nil
}

// LastDays is the window of the last n days through today.
func LastDays(n int, today Day) Window { return Window{From: today - Day(n-1), To: today} }

// Report is a key's usage in a window (promise U4).
type Report struct {
	Window Window
	Totals Totals
	Days   []Dated // one for each day of the window, zeros too

	// LastSeen is the last kept day with any traffic, denied or allowed, in the
	// window or not; Seen is false when there is none.
	LastSeen Day
	Seen     bool
}

// NewReport reports a history. What it holds of days after today (a checker's
// clock may be ahead) will be reported when they come.
func NewReport(w Window, h History, today Day) Report {
	r := Report{Window: w, Days: make([]Dated, 0, w.To-w.From+1)}
	for day := w.From; day <= w.To; day++ {
		t := h.On(day)
		r.Days = append(r.Days, Dated{Day: day, Totals: t})
		r.Totals = r.Totals.Plus(t)
	}
	r.LastSeen, r.Seen = h.LastSeen(today)
	return r
}
