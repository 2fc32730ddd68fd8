package counted

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A request that waits for another's reading can give up; a reading that fails is not
// kept.
func TestReadingFails(t *testing.T) {
	t.Parallel()
	s := NewShared[int]()
	at := time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	broken := errors.New("broken")
	if _, err := s.Read(t.Context(), now, func(context.Context, time.Time) (int, time.Duration, error) { return 1, time.Hour, broken }); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	two := func(context.Context, time.Time) (int, time.Duration, error) { return 2, time.Hour, nil }
	<-s.turn
	if _, err := s.Read(gone, now, two); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	s.turn <- struct{}{}
	if got, err := s.Read(t.Context(), now, two); got != 2 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}
