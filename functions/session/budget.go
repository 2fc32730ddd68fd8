package session

import (
	"time"
)

// How many failed sign-ins are recorded: so many at once, and one more after each
// pause.
const (
	recordsAtOnce = 100
	recordsEvery  = time.Second
)

// budget bounds what failed sign-ins may write to the store, by the process's
// monotonic clock.
type budget struct {
	limits
	start time.Time // the zero of its time
}

func newBudget(start time.Time) *budget {
	return &budget{newLimits(recordsAtOnce, recordsEvery, 1), start}
}

func (b *budget) take(now time.Time) bool { return b.limits.take(0, now.Sub(b.start)) == 0 }
