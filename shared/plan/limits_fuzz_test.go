package plan

import (
	"math"
	"testing"
)

// FuzzLimits: limits that are taken can be calculated with.
func FuzzLimits(f *testing.F) {
	f.Add(1.0, int64(1), int64(0), "")
	f.Add(0.01, int64(1_000_000), int64(1_000_000_000_000), "week")
	f.Add(math.NaN(), int64(1), int64(1), "day")
	f.Add(math.Inf(1), int64(math.MaxInt64), int64(math.MinInt64), "Day")
	f.Add(math.Copysign(0, -1), int64(0), int64(1), "")
	f.Fuzz(func(t *testing.T, rate float64, burst, quota int64, period string) {
		l := Limits{Rate: rate, Burst: burst, Quota: quota, Period: Period(period)}
		want := rate >= 0.01 && rate <= 100_000 && burst >= 1 && burst <= 1_000_000 &&
			(quota == 0 && period == "" || quota >= 1 && quota <= 1_000_000_000_000 && (period == "day" || period == "week" || period == "month"))
		if err := l.Check(); (err == nil) != want {
			t.Errorf("%+v: %v, want taken: %t", l, err, want)
		}
	})
}
