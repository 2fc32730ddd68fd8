package webhook

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

func TestLimitOfAnyMinute(t *testing.T) {
	t.Parallel()
	const most = 5
	start := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	l := newLimit(most, start)
	var taken []time.Time
	for now := start; now.Before(start.Add(10 * time.Minute)); now = now.Add(700 * time.Millisecond) {
		err := l.take("shop-prod.hello", now)
		if err == nil {
			taken = append(taken, now)
			continue
		}
		p := problem.From(err)
		if oldest := taken[len(taken)-most]; p.Code != problem.RateLimited || p.RetryAfter != oldest.Add(window).Sub(now) {
			t.Fatalf("at %s: %v, try again after %s", now.Sub(start), p, p.RetryAfter)
		}
	}
	for i := most; i < len(taken); i++ {
		if span := taken[i].Sub(taken[i-most]); span < window {
			t.Errorf("got %d calls within %s", most+1, span)
		}
	}
	if len(taken) < 45 {
		t.Errorf("accepted in ten minutes: got only %d", len(taken))
	}
}

func TestLimitIsBounded(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	l := newLimit(2, start)
	refused := 0
	for i := range 10 * slots {
		if l.take(fmt.Sprint("made-up.", i), start) != nil {
			refused++
		}
	}
	if refused < 8*slots {
		t.Errorf("rejected %d of %d calls", refused, 10*slots)
	}
}
