package usage

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/tests/check"
)

func dayOn(t *testing.T, text string) Day {
	t.Helper()
	d, err := ParseDay(text)
	check.OK(t, err)
	return d
}

func TestExcess(t *testing.T) {
	t.Parallel()
	at := func(text string) Day { return dayOn(t, text) }
	allowed := func(n uint64) Totals { return Totals{Allowed: n, RateDenied: 1000, QuotaDenied: 1000} }
	today := at("2024-03-05") // a Tuesday
	h := History{
		{at("2023-12-04"), allowed(900)}, // no longer stored
		{at("2023-12-05"), allowed(90)},  // a Tuesday, and the first stored day
		{at("2023-12-31"), allowed(20)},  // a Sunday
		{at("2024-01-01"), allowed(70)},
		{at("2024-01-31"), allowed(70)},
		{at("2024-02-29"), allowed(50)},
		{at("2024-03-04"), allowed(60)},
		{at("2024-03-05"), allowed(60)},
		{at("2024-03-06"), allowed(900)}, // a checker's clock is ahead
	}
	tests := []struct {
		name   string
		quota  int64
		period plan.Period
		want   Excess
	}{
		{"no quota", 0, "", Excess{}},
		{"day, never", 90, plan.Day, Excess{}},
		{"day, once", 89, plan.Day, Excess{1, at("2023-12-05"), 90}},
		{"day, several", 69, plan.Day, Excess{3, at("2023-12-05"), 90}},
		{"week, the current one", 119, plan.Week, Excess{1, at("2024-03-04"), 120}},
		{"week, the first one is incomplete", 89, plan.Week, Excess{2, at("2024-03-04"), 120}},
		{"month, never", 140, plan.Month, Excess{}},
		{"month, leap day", 49, plan.Month, Excess{4, at("2024-01-01"), 140}},
		{"month, twice", 119, plan.Month, Excess{2, at("2024-01-01"), 140}},
	}
	for _, tt := range tests {
		check.Equal(t, tt.name, tt.want, h.Excess(plan.Limits{Rate: 1, Burst: 1, Quota: tt.quota, Period: tt.period}, today))
	}
	equal := History{{at("2024-02-01"), allowed(7)}, {at("2024-02-02"), allowed(7)}}
	check.Equal(t, "equal days", Excess{2, at("2024-02-02"), 7}, equal.Excess(plan.Limits{Quota: 6, Period: plan.Day}, today))
}

// TestExcessEqualsTheSums compares Excess with the sums of all periods of the stored days.
func TestExcessEqualsTheSums(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		today := Day(rapid.Int32Range(10_000, 30_000).Draw(t, "today"))
		var h History
		for range rapid.IntRange(0, 40).Draw(t, "days") {
			day := today - Day(rapid.Int32Range(-3, RetentionDays+35).Draw(t, "ago"))
			h = h.Merge(day, Totals{rapid.Uint64Range(0, 20).Draw(t, "allowed"), rapid.Uint64Range(0, 99).Draw(t, "rate"), rapid.Uint64Range(0, 99).Draw(t, "quota")})
		}
		l := plan.Limits{Rate: 1, Burst: 1, Quota: rapid.Int64Range(1, 60).Draw(t, "limit"), Period: rapid.SampledFrom(plan.Periods()).Draw(t, "period")}

		sums := map[time.Time]uint64{}
		for day := EarliestKept(today); day <= today; day++ {
			sums[l.Period.Start(day.Start())] += h.Totals(day).Allowed
		}
		var want Excess
		for began, used := range sums {
			if used <= uint64(l.Quota) {
				continue
			}
			want.Periods++
			if first := DayOf(began); used > want.Used || used == want.Used && first > want.First {
				want.First, want.Used = first, used
			}
		}
		if got := h.Excess(l, today); got != want {
			t.Fatalf("%v with %d per %s on %s: got %+v, want %+v", h, l.Quota, l.Period, today, got, want)
		}
		larger := l
		larger.Quota++
		if got := h.Excess(larger, today).Periods; got > want.Periods {
			t.Fatalf("larger quota: got %d periods, want at most %d", got, want.Periods)
		}
	})
}
