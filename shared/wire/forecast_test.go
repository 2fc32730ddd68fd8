package wire

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLinesOfPlanForecasts(t *testing.T) {
	t.Parallel()
	const unknown = "The effect of rate and burst is unknown, because usage is stored per day."
	forecast := func(period, from string, keys int) PlanForecast {
		quota := int64(5)
		return PlanForecast{Quota: &quota, QuotaPeriod: &period, From: from, Keys: keys, Exceeding: min(keys, 2), Rate: Unknown}
	}
	old := forecast("day", "2025-12-13", 3)
	old.ReadTime = ReadTime{AsOf: time.Date(2026, 3, 14, 10, 14, 2, 0, time.FixedZone("CET", 3600)), Age: 11}
	damaged := forecast("day", "2025-12-13", 3)
	damaged.Incomplete, damaged.Age = []string{"2026-01-07", "2026-01-08"}, 10
	for _, tt := range []struct {
		name     string
		forecast PlanForecast
		want     []string
	}{
		{"days", forecast("day", "2025-12-13", 3), []string{"Since 2025-12-13, 2 of 3 keys used more than this quota in at least one day.", unknown}},
		{"months", forecast("month", "2025-12-13", 1), []string{
			"Since 2025-12-13, 1 of 1 keys used more than this quota in at least one month.", "The first month is incomplete.", unknown,
		}},
		{"whole months", forecast("month", "2025-12-01", 3), []string{"Since 2025-12-01, 2 of 3 keys used more than this quota in at least one month.", unknown}},
		{"weeks", forecast("week", "2025-12-13", 3), []string{ // a Saturday
			"Since 2025-12-13, 2 of 3 keys used more than this quota in at least one week.", "The first week is incomplete.", unknown,
		}},
		{"whole weeks", forecast("week", "2025-12-15", 3), []string{"Since 2025-12-15, 2 of 3 keys used more than this quota in at least one week.", unknown}},
		{"no keys", forecast("month", "2025-12-13", 0), []string{"No active keys use this plan."}},
		{"no quota", PlanForecast{From: "2025-12-13", Keys: 3, Rate: Unknown}, []string{"Without a quota, requests per period are not limited.", unknown}},
		{"an old read", old, []string{"Since 2025-12-13, 2 of 3 keys used more than this quota in at least one day.", "As of 09:14:02 UTC.", unknown}},
		{"damaged counters", damaged, []string{
			"Since 2025-12-13, 2 of 3 keys used more than this quota in at least one day.", unknown,
			"Counts of these days are too low because a stored counter is damaged: 2026-01-07, 2026-01-08.",
		}},
	} {
		if diff := cmp.Diff(tt.want, tt.forecast.Lines()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestLinesOfGateForecasts(t *testing.T) {
	t.Parallel()
	const (
		one  = "1 key can access hello. Requests without a valid key will be denied."
		many = "12 keys can access hello. Requests without a valid key will be denied."
		none = "No key can access hello, so all requests will be denied."
	)
	for _, tt := range []struct {
		keys AppKeys
		age  int
		want []string
	}{
		{AppKeys{}, 0, []string{none}},
		{AppKeys{}, 102, []string{none, "As of 09:14:02 UTC."}},
		{AppKeys{Usable: 1}, 10, []string{one}},
		{AppKeys{Usable: 1, NeverSeen: 1, Expired: 1}, 0, []string{one, "This key has no stored requests.", "1 expired key will be denied."}},
		{AppKeys{Usable: 12, NeverSeen: 1, Disabled: 2}, 0, []string{many, "1 of these keys has no stored requests.", "2 disabled keys will be denied."}},
		{AppKeys{Usable: 12, NeverSeen: 12, Disabled: 1, Expired: 2}, 0, []string{many, "12 of these keys have no stored requests.", "1 disabled key and 2 expired keys will be denied."}},
	} {
		f := GateForecast{
			Keys: tt.keys, Observed: Observed{State: NotObserved, Message: "The number is unknown."},
			ReadTime: ReadTime{AsOf: time.Date(2026, 3, 14, 9, 14, 2, 0, time.UTC), Age: tt.age},
		}
		if diff := cmp.Diff(append(tt.want, "The number is unknown."), f.Lines("hello")); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.keys, diff)
		}
	}
}
