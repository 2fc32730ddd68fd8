package usage

import "time"

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

// End is the day's end: the first instant of the next.
func (d Day) End() time.Time { return (d + 1).Start() }

// Closed tells whether the day's counters may be compacted at a time.
func (d Day) Closed(now time.Time) bool { return !now.Before(d.End().Add(Closing)) }
