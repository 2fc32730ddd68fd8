// Package usage counts and reports the requests of keys per UTC calendar day (promises U1 to U5).
//
// Each checker process is a source of counters. It writes absolute totals, so repeated writes change
// nothing. A key's usage is the sum over all sources.
package usage

import (
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Totals are a key's requests by outcome.
type Totals struct {
	Allowed     uint64
	RateDenied  uint64
	QuotaDenied uint64
}

// Plus returns the sum of two totals.
func (t Totals) Plus(o Totals) Totals {
	return Totals{t.Allowed + o.Allowed, t.RateDenied + o.RateDenied, t.QuotaDenied + o.QuotaDenied}
}

// Zero reports whether all totals are zero.
func (t Totals) Zero() bool { return t == Totals{} }

// Max returns the larger of each total.
func (t Totals) Max(o Totals) Totals {
	return Totals{max(t.Allowed, o.Allowed), max(t.RateDenied, o.RateDenied), max(t.QuotaDenied, o.QuotaDenied)}
}

// Covers reports whether none of o's totals is larger.
func (t Totals) Covers(o Totals) bool { return t.Max(o) == t }

// Day is the number of UTC calendar days since 1970-01-01.
type Day int32

const dayLayout = "2006-01-02"

// DayOf returns the day that contains t.
func DayOf(t time.Time) Day {
	s := t.Unix()
	d := s / 86400
	if s%86400 < 0 {
		d--
	}
	return Day(d)
}

// Start returns the start of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

func (d Day) String() string { return d.Start().Format(dayLayout) }

// ParseDay parses YYYY-MM-DD. It returns invalid_date.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(dayLayout, s)
	if err != nil || len(s) != len(dayLayout) {
		return 0, problem.FromCode(problem.InvalidDate)
	}
	return DayOf(t), nil
}

// End returns the start of the next day.
func (d Day) End() time.Time { return (d + 1).Start() }

// Closed reports whether the day's counters can be compacted.
func (d Day) Closed(now time.Time) bool { return !now.Before(d.End().Add(Closing)) }

// Checkers create no counter of a day after Late, so after Closing no further source can appear, and
// compaction counts nothing twice. The day between Late and Closing tolerates clocks that differ.
const (
	// Late is the time after the end of a day until which its counters can be created.
	Late = 24 * time.Hour
	// Closing is the time after the end of a day from which its counters can be compacted.
	Closing = 2 * Late
	// CounterDays is the number of days for which counters are stored, including today. The longest
	// quota period has 31 days; the others are for checkers that start late.
	CounterDays = 35
)
