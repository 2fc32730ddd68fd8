// Package usage holds what is counted of each key, and how it is reported
// (promises U1 to U5).
//
// A key's requests are counted per UTC calendar day in three totals. Each
// checker process, a source, counts for itself and writes absolute totals, so
// that writing twice changes nothing; the truth is the sum over sources.
package usage

import (
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Totals count a key's requests by outcome.
type Totals struct {
	Allowed     uint64
	RateDenied  uint64
	QuotaDenied uint64
}

// Plus adds two totals.
func (t Totals) Plus(o Totals) Totals {
	return Totals{t.Allowed + o.Allowed, t.RateDenied + o.RateDenied, t.QuotaDenied + o.QuotaDenied}
}

// Zero tells whether nothing was counted.
func (t Totals) Zero() bool { return t == Totals{} }

// Max gives the larger of each total.
func (t Totals) Max(o Totals) Totals {
	return Totals{max(t.Allowed, o.Allowed), max(t.RateDenied, o.RateDenied), max(t.QuotaDenied, o.QuotaDenied)}
}

// Covers tells whether none of o's totals is larger.
func (t Totals) Covers(o Totals) bool { return t.Max(o) == t }

// Day is a UTC calendar day, counted from 1970-01-01 as 0.
type Day int32

const dayLayout = "2006-01-02"

// DayOf gives the day that holds t.
func DayOf(t time.Time) Day {
	s := t.Unix()
	d := s / 86400
	if s%86400 < 0 {
		d--
	}
	return Day(d)
}

// Start is the day's first instant.
func (d Day) Start() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String writes the day as YYYY-MM-DD.
func (d Day) String() string { return d.Start().Format(dayLayout) }

// ParseDay reads YYYY-MM-DD. Problem: invalid_date.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(dayLayout, s)
	if err != nil || len(s) != len(dayLayout) {
		return 0, problem.Of(problem.InvalidDate)
	}
	return DayOf(t), nil
}

// End is the day's end: the first instant of the next.
func (d Day) End() time.Time { return (d + 1).Start() }

// Closed tells whether the day's counters may be compacted at a time.
func (d Day) Closed(now time.Time) bool { return !now.Before(d.End().Add(Closing)) }

// The life of a day's counters. The order of these is what makes compaction
// safe: a checker creates no counter of a day later than Late after its end, so
// by Closing every source of the day is there, and one that is missing will not
// come. Replacing the sources by their sum then counts nothing twice. Between
// the two lies a whole day for clocks that differ.
const (
	// Late is how long after its end a day's counter may still be created.
	Late = 24 * time.Hour
	// Closing is how long after its end a day's counters may be compacted.
	Closing = 2 * Late
	// CounterDays is for how many days, today among them, counters are kept: the
	// longest quota period has 31, and the rest is for late starters.
	CounterDays = 35
)
