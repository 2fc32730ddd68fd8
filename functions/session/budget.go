package session

import (
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
)

// How many sign-ins are recorded: so many at once, and one more after each pause. A
// user's own from where they have signed in before are of little interest, and a
// pipeline makes many of them.
const (
	recordsAtOnce = 100
	recordsEvery  = time.Second

	familiarAtOnce = 20
	familiarEvery  = time.Hour
)

// budget bounds what sign-ins may write to the store, by the process's monotonic clock.
// Those it leaves out are counted, and the next record tells how many they were.
type budget struct {
	limits limits    // of one slot
	start  time.Time // the zero of its time

	mu   sync.Mutex
	left int // out, since the last record
}

func newBudget(start time.Time, atOnce int, every time.Duration) *budget {
	return &budget{limits: newLimits(atOnce, every, 1), start: start}
}

// take tells whether an attempt may be recorded, and how many were left out before it.
func (b *budget) take(now time.Time) (left int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limits.take(0, now.Sub(b.start)) > 0 {
		b.left++
		return 0, false
	}
	left, b.left = b.left, 0
	return left, true
}

// leave counts attempts whose record could not be written.
func (b *budget) leave(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// unrecorded is how a record tells how many sign-ins like it were left out before it.
func unrecorded(n int) audit.Values {
	if n == 0 {
		return nil
	}
	return audit.Values{"unrecorded": n}
}

// successes bounds the records of sign-ins that succeeded, for each user: there are as
// many as there are users.
type successes struct {
	start time.Time

	mu sync.Mutex
	of map[success]*budget
}

// success is a kind of sign-ins that succeed.
type success struct {
	username string
	familiar bool // from an address that the user has signed in from before
}

func newSuccesses(start time.Time) *successes {
	return &successes{start: start, of: map[success]*budget{}}
}

func (s *successes) budget(of success) *budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of[of]
	if b == nil {
		b = newBudget(s.start, recordsAtOnce, recordsEvery)
		if of.familiar {
			b = newBudget(s.start, familiarAtOnce, familiarEvery)
		}
		s.of[of] = b
	}
	return b
}
