package load

import (
	"sync"
	"testing"
	"time"
)

// window is the maximum time after a change in which the previous state is allowed.
const window = 20 * time.Second

// verdict is a set of possible responses of the gate.
type verdict uint8

const (
	allowed verdict = 1 << iota
	rateDenied
	quotaDenied
	invalidKey
	unavailable // 503 gate_unavailable
	noResponse  // or a response that is not from the gate
)

func (v verdict) String() string {
	names := map[verdict]string{
		allowed: "allowed", rateDenied: "rate_limited", quotaDenied: "quota_exhausted", invalidKey: "invalid_key",
		unavailable: "gate_unavailable", noResponse: "no response",
	}
	text := ""
	for one := allowed; one <= noResponse; one <<= 1 {
		if v&one != 0 {
			if text != "" {
				text += " or "
			}
			text += names[one]
		}
	}
	return text
}

type epoch struct {
	begin time.Time // responses of this state are allowed
	end   time.Time // those of the previous state no longer are; zero if unknown
	may   verdict
}

// timeline holds the allowed responses over time. It is safe for concurrent use.
type timeline struct {
	mu     sync.Mutex
	epochs []epoch
}

func newTimeline(may verdict) *timeline { return &timeline{epochs: []epoch{{may: may}}} }

// change begins a state. The caller ends the previous state with the returned function, but only
// if the change succeeded.
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

func (l *timeline) at(t time.Time, may verdict) {
	l.change(t, may)(t)
}

// may returns the responses allowed for a request between begin and end.
func (l *timeline) may(begin, end time.Time) (may verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.epochs {
		ended := i+1 < len(l.epochs) && !l.epochs[i+1].end.IsZero() && begin.After(l.epochs[i+1].end)
		if !ended && !end.Before(e.begin) {
			may |= e.may
		}
	}
	return may
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	at := func(s int) time.Time { return zero.Add(time.Duration(s) * time.Second) }
	l := newTimeline(allowed)
	made := l.change(at(10), invalidKey)
	expect := func(begin, end int, want verdict) {
		t.Helper()
		if got := l.may(at(begin), at(end)); got != want {
			t.Errorf("from %d to %d: got %v, want %v", begin, end, got, want)
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
