package usage

import (
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
)

func FuzzNewWindow(f *testing.F) {
	f.Add("2026-03-01", "2026-03-14", int32(20526))
	f.Add("", "", int32(20526))
	f.Add("2026-03-15", "", int32(20526))
	f.Add("", "2025-12-01", int32(20526))
	f.Add("0001-01-01", "9999-12-31", int32(0))
	f.Fuzz(func(t *testing.T, from, to string, now int32) {
		today := Day(now % 3_000_000) // about 8,000 years
		ask := func(s string) *Day {
			d, err := ParseDay(s)
			if err != nil {
				return nil
			}
			return &d
		}
		a, b := ask(from), ask(to)
		w, err := NewWindow(a, b, today)
		if err != nil {
			if !problem.Is(err, problem.InvalidWindow) && !problem.Is(err, problem.WindowExpired) {
				t.Fatalf("%q to %q: got %v, want invalid_window or window_expired", from, to, err)
			}
			if a == nil && b == nil {
				t.Fatalf("default window on %s: got error %v", today, err)
			}
			return
		}
		if w.From > w.To || w.From < EarliestKept(today) || w.To > today || w.To-w.From >= RetentionDays {
			t.Errorf("%q to %q on %s: got %s to %s, want stored days", from, to, today, w.From, w.To)
		}
		if a != nil && w.From < *a || b != nil && w.To > *b {
			t.Errorf("%q to %q on %s: got %s to %s, want requested days", from, to, today, w.From, w.To)
		}
	})
}
