package plan

import (
	"slices"
	"time"
)

// Period is what a quota counts over: a UTC calendar day, week (from Monday) or
// month (specification section 8).
type Period string

// The periods of specification section 2.1.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// Periods lists all periods, the shortest first.
func Periods() []Period { return []Period{Day, Week, Month} }

// Valid tells whether p is one of them.
func (p Period) Valid() bool { return slices.Contains(Periods(), p) }

// Start gives the first instant of the period that holds t.
func (p Period) Start(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	switch p {
	case Week:
		sinceMonday := (int(t.UTC().Weekday()) + 6) % 7
		return time.Date(y, m, d-sinceMonday, 0, 0, 0, 0, time.UTC)
	case Month:
		return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case Day:
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// End gives the first instant after the period that holds t.
func (p Period) End(t time.Time) time.Time {
	start := p.Start(t)
	switch p {
	case Week:
		return start.AddDate(0, 0, 7)
	case Month:
		return start.AddDate(0, 1, 0)
	case Day:
	}
	return start.AddDate(0, 0, 1)
}
