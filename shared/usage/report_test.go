package usage

import (
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func TestNewReport(t *testing.T) {
	t.Parallel()
	const today = Day(20000)
	one := Totals{Allowed: 1}
	tests := []struct {
		name    string
		history History
		window  Window
		want    Report
	}{
		{
			"nothing", nil,
			Window{today - 1, today},
			Report{Days: []Dated{{Day: today - 1}, {Day: today}}},
		},
		{
			"zeros between",
			History{{today - 2, Totals{1, 2, 3}}, {today, Totals{4, 5, 6}}},
			Window{today - 2, today},
			Report{
				Totals: Totals{5, 7, 9}, LastSeen: today, Seen: true,
				Days: []Dated{{today - 2, Totals{1, 2, 3}}, {Day: today - 1}, {today, Totals{4, 5, 6}}},
			},
		},
		{
			"last seen after the window",
			History{{today - 9, one}, {today - 3, one}},
			Window{today - 9, today - 9},
			Report{Totals: one, LastSeen: today - 3, Seen: true, Days: []Dated{{today - 9, one}}},
		},
		{
			"last seen before the window",
			History{{today - 91, one}},
			Window{today, today},
			Report{LastSeen: today - 91, Seen: true, Days: []Dated{{Day: today}}},
		},
		{
			"a denial is traffic",
			History{{today, Totals{RateDenied: 1}}},
			Window{today, today},
			Report{Totals: Totals{RateDenied: 1}, LastSeen: today, Seen: true, Days: []Dated{{today, Totals{RateDenied: 1}}}},
		},
		{
			"not pruned yet",
			History{{today - 92, one}},
			Window{today, today},
			Report{Days: []Dated{{Day: today}}},
		},
		{
			"a clock ahead",
			History{{today, one}, {today + 1, one}},
			Window{today, today},
			Report{Totals: one, LastSeen: today, Seen: true, Days: []Dated{{today, one}}},
		},
		{
			"zero day kept",
			History{{today - 1, one}, {today, Totals{}}},
			Window{today, today},
			Report{LastSeen: today - 1, Seen: true, Days: []Dated{{Day: today}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Window = tt.window
			check.Equal(t, "report", tt.want, NewReport(tt.window, tt.history, today))
		})
	}
}

func TestReportHasEveryDay(t *testing.T) {
	t.Parallel()
	const today = Day(20000)
	r := NewReport(Window{EarliestKept(today), today}, nil, today)
	if len(r.Days) != RetentionDays {
		t.Errorf("got %d days, want 92", len(r.Days))
	}
}
