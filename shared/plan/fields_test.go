package plan

import (
	"math"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/tests/check"
)

func TestFields(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		limits        Limits
		standing      Standing
		policy, limit string
	}{
		{
			"a burst that fills in whole seconds",
			Limits{Rate: 10, Burst: 20},
			Standing{Tokens: 15, Token: 100 * time.Millisecond},
			`"rate";q=20;w=2`, `"rate";r=15;t=2`,
		},
		{
			"a burst that fills sooner than in a second",
			Limits{Rate: 100, Burst: 20},
			Standing{Tokens: 20, Token: 10 * time.Millisecond},
			`"rate";q=100;w=1`, `"rate";r=20;t=1`,
		},
		{
			"a burst that fills between two seconds",
			Limits{Rate: 10, Burst: 25},
			Standing{Tokens: 25, Token: 100 * time.Millisecond},
			`"rate";q=30;w=3`, `"rate";r=25;t=3`,
		},
		{
			"an empty bucket that fills slowly",
			Limits{Rate: 0.01, Burst: 1},
			Standing{Token: 100 * time.Second, Wait: 99*time.Second + 1},
			`"rate";q=1;w=100`, `"rate";r=0;t=100`,
		},
		{
			"a quota of a day",
			Limits{Rate: 1, Burst: 1, Quota: 1000, Period: Day},
			Standing{Tokens: 1, Token: time.Second, Quota: 1000, Used: 1, Length: day, Resets: time.Hour},
			`"rate";q=1;w=1, "quota";q=1000;w=86400`, `"rate";r=1;t=1, "quota";r=999;t=3600`,
		},
		{
			"a quota of a week, exceeded",
			Limits{Rate: 1, Burst: 1, Quota: 10, Period: Week},
			Standing{Tokens: 1, Token: time.Second, Quota: 10, Used: 12, Length: 7 * day, Resets: time.Millisecond},
			`"rate";q=1;w=1, "quota";q=10;w=604800`, `"rate";r=1;t=1, "quota";r=0;t=1`,
		},
		{
			"a quota of February",
			Limits{Rate: 1, Burst: 1, Quota: 10, Period: Month},
			Standing{Tokens: 1, Token: time.Second, Quota: 10, Length: 28 * day, Resets: 28 * day},
			`"rate";q=1;w=1, "quota";q=10;w=2419200`, `"rate";r=1;t=1, "quota";r=10;t=2419200`,
		},
		{
			"the largest of all",
			Limits{Rate: MinRate, Burst: MaxBurst, Quota: MaxQuota, Period: Month},
			Standing{Tokens: MaxBurst, Token: 100 * time.Second, Quota: MaxQuota, Used: math.MaxUint64, Length: 31 * day, Resets: 31 * day},
			`"rate";q=1000000;w=100000000, "quota";q=1000000000000;w=2678400`, `"rate";r=1000000;t=100000000, "quota";r=0;t=2678400`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, p := http.Header{}, PolicyOf(tt.limits)
			tt.standing.Set(h, &p)
			want := http.Header{PolicyField: {tt.policy}, LimitField: {tt.limit}}
			check.Equal(t, "fields", want, h)
		})
	}
}

func TestThroughput(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := float64(rapid.Int64Range(1, MaxRate*100).Draw(t, "hundredths")) / 100
		burst := rapid.Int64Range(1, MaxBurst).Draw(t, "burst")
		q, w := throughput(rate, burst)
		exact := rate * float64(w)
		if float64(q) > exact+1e-3 || float64(q) <= exact-1-1e-3 || q < burst || w < 1 {
			t.Fatalf("rate %v, burst %d: got %d in %d s", rate, burst, q, w)
		}
		if shorter := float64(w - 1); shorter >= 1 && rate*shorter >= float64(burst)+1e-3 {
			t.Fatalf("rate %v, burst %d: got a window longer than %v s", rate, burst, shorter)
		}
	})
}
