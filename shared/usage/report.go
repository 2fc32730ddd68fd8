package usage

// Report is a key's usage in a window (specification section 2.3).
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

// LastSeen is the last day with any traffic among those kept today.
func (h History) LastSeen(today Day) (Day, bool) {
	last, seen := Day(0), false
	for d := range h.Counted() {
		if d.Day >= EarliestKept(today) && d.Day <= today {
			last, seen = d.Day, true
		}
	}
	return last, seen
}
