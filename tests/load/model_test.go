package load

import (
	"sync"
	"testing"
	"time"
)

// window is how long after a change's call has returned the state before it may
// still be seen, at most.
const window = 20 * time.Second

// verdict is an answer of the gate; several of them are a set.
type verdict uint8

const (
	allowed verdict = 1 << iota
	rateDenied
	quotaDenied
	invalidKey
	unavailable // 503 gate_unavailable
	noAnswer    // none, or one that is not the gate's
)

func (v verdict) String() string {
	names := map[verdict]string{
		allowed: "allowed", rateDenied: "rate_limited", quotaDenied: "quota_exhausted", invalidKey: "invalid_key",
		unavailable: "gate_unavailable", noAnswer: "no answer",
	}
	text := ""
	for one := allowed; one <= noAnswer; one <<= 1 {
		if v&one != 0 {
			if text != "" {
				text += " or "
			}
			text += names[one]
		}
	}
	return text
}

// epoch is a state that something may be in.
type epoch struct {
	begin time.Time // from then on it may be seen
	end   time.Time // from then on the state before it may not; zero while that is open
	may   verdict
}

// timeline is what may be answered, over time. Its methods may be called by several
// goroutines.
type timeline struct {
	mu     sync.Mutex
	epochs []epoch
}

func newTimeline(may verdict) *timeline { return &timeline{epochs: []epoch{{may: may}}} }

// change begins another state. Call the returned function when the change is known
// to be made; a change whose outcome is never known stays open.
func (l *timeline) change(begin time.Time, may verdict) (made func(time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs = append(l.epochs, epoch{begin: begin, may: may})
	i := len(l.epochs) - 1
	return func(end time.Time) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.epochs[i].end = end
	}
}

// at changes the state at a moment that is known beforehand, by a clock that the
// product shares.
func (l *timeline) at(moment time.Time, may verdict) {
	l.change(moment, may)(moment)
}

// may is what a request may get that was sent at begin and answered at end.
func (l *timeline) may(begin, end time.Time) (may verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.epochs {
		gone := i+1 < len(l.epochs) && !l.epochs[i+1].end.IsZero() && begin.After(l.epochs[i+1].end)
		if !gone && !end.Before(e.begin) {
			may |= e.may
		}
	}
	return may
}

// TestModel: both states are right while a change is uncertain, one is otherwise.
func TestModel(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	at := func(s int) time.Time { return zero.Add(time.Duration(s) * time.Second) }
	l := newTimeline(allowed)
	made := l.change(at(10), invalidKey)
	expect := func(begin, end int, want verdict) {
		t.Helper()
		if got := l.may(at(begin), at(end)); got != want {
			t.Errorf("from %d to %d: %v, want %v", begin, end, got, want)
		}
	}
	expect(1, 2, allowed)
	expect(9, 11, allowed|invalidKey)
	expect(50, 51, allowed|invalidKey) // the call has not returned
	made(at(17))
	expect(1, 2, allowed)
	expect(11, 12, allowed|invalidKey)
	expect(16, 20, allowed|invalidKey)
	expect(18, 20, invalidKey)
	l.at(at(30), quotaDenied)
	expect(18, 29, invalidKey)
	expect(29, 31, invalidKey|quotaDenied)
	expect(31, 32, quotaDenied)
}
