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

// budget bounds what failed sign-ins may write to the store.
type budget struct{ limits }

func newBudget() *budget { return &budget{newLimits(recordsAtOnce, recordsEvery, 1)} }

func (b *budget) take(now time.Time) bool { return b.limits.take(0, now) == 0 }
