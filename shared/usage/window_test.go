package usage

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func day(t *testing.T, s string) Day {
	t.Helper()
	d, err := ParseDay(s)
	if err != nil {
		t.Fatalf("day %s: %v", s, err)
	}
	return d
}

// TestNewWindow verifies promises U4 and U5.
func TestNewWindow(t *testing.T) {
	t.Parallel()
	const today = "2028-03-01" // the earliest stored day is 2027-12-01
	tests := []struct {
		name, from, to, today string
		want                  string // "from..to", or a problem code
	}{
		{"nothing asked for is 90 days", "", "", today, "2027-12-03..2028-03-01"},
		{"one day", "2028-02-10", "2028-02-10", today, "2028-02-10..2028-02-10"},
		{"today", today, today, today, "2028-03-01..2028-03-01"},
		{"leap day", "2028-02-29", "2028-02-29", today, "2028-02-29..2028-02-29"},
		{"92 days", "2027-12-01", today, today, "2027-12-01..2028-03-01"},
		{"from a day before the cutoff is moved forward", "2027-11-30", today, today, "2027-12-01..2028-03-01"},
		{"from long before the cutoff is moved forward", "0001-01-01", "2027-12-01", today, "2027-12-01..2027-12-01"},
		{"only from", "2028-02-28", "", today, "2028-02-28..2028-03-01"},
		{"only from, before the cutoff", "2020-01-01", "", today, "2027-12-01..2028-03-01"},
		{"only to", "", "2028-02-28", today, "2027-12-03..2028-02-28"},
		{"only to, the first day of the default", "", "2027-12-03", today, "2027-12-03..2027-12-03"},
		{"only to, before the default begins", "", "2027-12-02", today, "2027-12-01..2027-12-02"},
		{"only to, the earliest kept day", "", "2027-12-01", today, "2027-12-01..2027-12-01"},
		{"only to, before the cutoff", "", "2027-11-30", today, "window_expired"},
		{"to in the future is moved back", "2028-02-29", "2028-03-02", today, "2028-02-29..2028-03-01"},
		{"to in the far future is moved back", "2028-02-29", "9999-12-31", today, "2028-02-29..2028-03-01"},
		{"only to, in the future", "", "2029-01-01", today, "2027-12-03..2028-03-01"},
		{"both in the future", "2028-03-02", "2028-03-03", today, "invalid_window"},
		{"from in the future", "2028-03-02", "", today, "invalid_window"},
		{"from after to", "2028-02-11", "2028-02-10", today, "invalid_window"},
		{"from after to, both in the future", "2029-01-02", "2029-01-01", today, "invalid_window"},
		{"from after to, both before the cutoff", "2020-01-02", "2020-01-01", today, "invalid_window"},
		{"entirely before the cutoff", "2027-11-01", "2027-11-30", today, "window_expired"},
		{"one day before the cutoff", "2027-11-30", "2027-11-30", today, "window_expired"},
		{"over a year's end", "2026-12-31", "2027-01-01", "2027-01-15", "2026-12-31..2027-01-01"},
		{"92 days through a leap day", "2028-01-01", "2028-04-01", "2028-04-01", "2028-01-01..2028-04-01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, "window", tt.want, windowOrCode(t, tt.from, tt.to, tt.today))
		})
	}
}

func windowOrCode(t *testing.T, from, to, today string) string {
	t.Helper()
	ask := func(s string) *Day {
		if s == "" {
			return nil
		}
		d := day(t, s)
		return &d
	}
	w, err := NewWindow(ask(from), ask(to), day(t, today))
	if err != nil {
		return string(problem.From(err).Code)
	}
	return w.From.String() + ".." + w.To.String()
}

func TestNewWindowHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		today := Day(rapid.IntRange(20000, 30000).Draw(t, "today"))
		near := rapid.IntRange(-200, 200)
		from, to := today+Day(near.Draw(t, "from")), today+Day(near.Draw(t, "to"))
		w, err := NewWindow(&from, &to, today)
		kept := max(from, EarliestKept(today)) <= min(to, today)
		if kept != (err == nil) {
			t.Fatalf("%s..%s on %s: got error %v", from, to, today, err)
		}
		if err == nil && w != (Window{From: max(from, EarliestKept(today)), To: min(to, today)}) {
			t.Fatalf("%s..%s on %s: got %s..%s", from, to, today, w.From, w.To)
		}
	})
}
