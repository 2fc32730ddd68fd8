package usagequery

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/usage"
)

func TestSharedDoesNotCacheErrors(t *testing.T) {
	t.Parallel()
	s := NewShared[int]()
	at := time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	broken := errors.New("broken")
	if _, err := s.Read(t.Context(), now, func(context.Context, time.Time) (int, time.Duration, error) { return 1, time.Hour, broken }); !errors.Is(err, broken) {
		t.Errorf("failed load: got error %v, want that of the load", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	two := func(context.Context, time.Time) (int, time.Duration, error) { return 2, time.Hour, nil }
	<-s.turn
	if _, err := s.Read(gone, now, two); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled request: got error %v, want context.Canceled", err)
	}
	s.turn <- struct{}{}
	if got, err := s.Read(t.Context(), now, two); got != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", got, err)
	}
}

func TestUnwritten(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC)
	today := usage.DayOf(now)
	d := days{counters: []usage.Counter{
		{Day: today, Source: "a-1", Counts: usage.Packed(nil).Pack("aaaaaaaa", usage.Totals{Allowed: 5, RateDenied: 5}).Pack("bbbbbbbb", usage.Totals{Allowed: 9})},
		{Day: today, Source: "b-1", Counts: usage.Packed(nil).Pack("aaaaaaaa", usage.Totals{Allowed: 100})},
	}}
	held := func(source string, day usage.Day, allowed uint64) usage.Held {
		return usage.Held{Prefix: "aaaaaaaa", Source: source, Day: day.String(), Allowed: allowed}
	}
	tests := []struct {
		name string
		held []usage.Held
		want uint64
	}{
		{"more than stored", []usage.Held{held("a-1", today, 7)}, 2},
		{"as stored", []usage.Held{held("a-1", today, 5)}, 0},
		{"less than stored", []usage.Held{held("a-1", today, 3)}, 0},
		{"a source that has written nothing", []usage.Held{held("c-1", today, 4)}, 4},
		{"several sources", []usage.Held{held("a-1", today, 6), held("b-1", today, 101)}, 2},
		{"a closed day", []usage.Held{held("a-1", today-5, 4)}, 0},
		{"a day to come", []usage.Held{held("a-1", today+1, 4)}, 0},
		{"no day", []usage.Held{{Prefix: "aaaaaaaa", Source: "a-1", Day: "today", Allowed: 4}}, 0},
	}
	for _, tt := range tests {
		var got uint64
		for _, sums := range d.unwritten(tt.held, now) {
			got += sums["aaaaaaaa"].Allowed
		}
		if got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
