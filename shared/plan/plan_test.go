package plan

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestLimitsCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		limits Limits
		want   problem.Code // "" if it is valid
	}{
		{"least", Limits{Rate: 0.01, Burst: 1}, ""},
		{"most", Limits{Rate: 100_000, Burst: 1_000_000, Quota: 1_000_000_000_000, Period: Month}, ""},
		{"least quota", Limits{Rate: 1, Burst: 1, Quota: 1, Period: Day}, ""},
		{"hard quota", Limits{Rate: 1, Burst: 1, Quota: 1, Period: Day, Hard: true}, ""},
		{"weekly quota", Limits{Rate: 1, Burst: 1, Quota: 7, Period: Week}, ""},
		{"rate of nothing", Limits{Burst: 1}, problem.InvalidRate},
		{"rate just too low", Limits{Rate: math.Nextafter(0.01, 0), Burst: 1}, problem.InvalidRate},
		{"rate just too high", Limits{Rate: math.Nextafter(100_000, math.Inf(1)), Burst: 1}, problem.InvalidRate},
		{"negative rate", Limits{Rate: -1, Burst: 1}, problem.InvalidRate},
		{"rate not a number", Limits{Rate: math.NaN(), Burst: 1}, problem.InvalidRate},
		{"infinite rate", Limits{Rate: math.Inf(1), Burst: 1}, problem.InvalidRate},
		{"rate without burst", Limits{Rate: 1}, problem.InvalidBurst},
		{"negative burst", Limits{Rate: 1, Burst: -1}, problem.InvalidBurst},
		{"burst too high", Limits{Rate: 1, Burst: 1_000_001}, problem.InvalidBurst},
		{"quota without period", Limits{Rate: 1, Burst: 1, Quota: 1}, problem.InvalidQuota},
		{"period without quota", Limits{Rate: 1, Burst: 1, Period: Day}, problem.InvalidQuota},
		{"hard without quota", Limits{Rate: 1, Burst: 1, Hard: true}, problem.InvalidQuota},
		{"hard with a period alone", Limits{Rate: 1, Burst: 1, Period: Day, Hard: true}, problem.InvalidQuota},
		{"negative hard quota", Limits{Rate: 1, Burst: 1, Quota: -1, Period: Day, Hard: true}, problem.InvalidQuota},
		{"negative quota", Limits{Rate: 1, Burst: 1, Quota: -1, Period: Day}, problem.InvalidQuota},
		{"quota too high", Limits{Rate: 1, Burst: 1, Quota: 1_000_000_000_001, Period: Day}, problem.InvalidQuota},
		{"unknown period", Limits{Rate: 1, Burst: 1, Quota: 1, Period: "year"}, problem.InvalidQuota},
		{"period in another case", Limits{Rate: 1, Burst: 1, Quota: 1, Period: "Day"}, problem.InvalidQuota},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Problem(t, tt.limits.Check(), tt.want)
		})
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     problem.Code
	}{
		{"plain", "Starter (EU)", ""},
		{"one digit", "1", ""},
		{"longest", strings.Repeat("a", 63), ""},
		{"longest in characters, not bytes", "a" + strings.Repeat("é", 62), ""},
		{"empty", "", problem.InvalidName},
		{"too long", strings.Repeat("a", 64), problem.InvalidName},
		{"new line", "a\nb", problem.InvalidName},
		{"NUL", "a\x00", problem.InvalidName},
		{"C1 control", "a\u0085", problem.InvalidName},
		{"not UTF-8", "a\xff", problem.InvalidName},
		{"blanks", "  ", problem.InvalidName},
		{"nothing for an id", "無料", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Problem(t, CheckName(tt.in), tt.want)
		})
	}
}

func TestIDFor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want ID
	}{
		{"Starter", "plan-starter"},
		{"Starter (EU)", "plan-starter-eu"},
		{"  two   words ", "plan-two-words"},
		{"a--b", "plan-a-b"},
		{"-a-", "plan-a"},
		{"Café 1", "plan-caf-1"},
		{"plan", "plan-plan"},
		{"10/s", "plan-10-s"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			if got := IDFor(tt.in); got != tt.want {
				t.Errorf("IDFor(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestRandomID(t *testing.T) {
	t.Parallel()
	first, second := IDFor("無料"), IDFor("無料")
	if !ValidID(string(first)) || !ValidID(string(second)) || first == second {
		t.Errorf("got the IDs %q and %q, want two that are valid and different", first, second)
	}
}

func TestValidID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"plan-a", "plan-a-b", "plan-1", "plan-" + strings.Repeat("x", 63)} {
		if !ValidID(id) {
			t.Errorf("ValidID(%q) = false", id)
		}
	}
	for _, id := range []string{
		"", "plan-", "plan", "a", "plan-A", "plan--a", "plan-a-", "plan-a--b", "plan-a/b", "plan-a.b", "plan-é",
		"plan-..", "canary.plan-a", " plan-a", "plan-" + strings.Repeat("x", 64),
	} {
		if ValidID(id) {
			t.Errorf("ValidID(%q) = true", id)
		}
	}
}

// Every valid name has a valid ID.
func FuzzIDFor(f *testing.F) {
	for _, s := range []string{"Starter", "é1", "a b", "K", "İ9", "\x00", "ẞa", strings.Repeat("a", 63)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := CheckName(name)
		id := string(IDFor(name))
		if err == nil && !ValidID(id) {
			t.Errorf("name %q is valid, but its ID %q is not", name, id)
		}
		if err == nil && (!utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r\x7f")) {
			t.Errorf("name %q is valid, want invalid", name)
		}
	})
}

func FuzzLimits(f *testing.F) {
	f.Add(1.0, int64(1), int64(0), "", false)
	f.Add(1.0, int64(1), int64(0), "", true)
	f.Add(0.01, int64(1_000_000), int64(1_000_000_000_000), "week", true)
	f.Add(math.NaN(), int64(1), int64(1), "day", false)
	f.Add(math.Inf(1), int64(math.MaxInt64), int64(math.MinInt64), "Day", false)
	f.Add(math.Copysign(0, -1), int64(0), int64(1), "", false)
	f.Fuzz(func(t *testing.T, rate float64, burst, quota int64, period string, hard bool) {
		l := Limits{Rate: rate, Burst: burst, Quota: quota, Period: Period(period), Hard: hard}
		want := rate >= 0.01 && rate <= 100_000 && burst >= 1 && burst <= 1_000_000 &&
			(quota == 0 && period == "" && !hard || quota >= 1 && quota <= 1_000_000_000_000 && (period == "day" || period == "week" || period == "month"))
		if err := l.Check(); (err == nil) != want {
			t.Errorf("%+v: got %v, want valid %t", l, err, want)
		}
	})
}

func TestPeriod(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		period         Period
		at, start, end string
	}{
		{"a day", Day, "2026-03-14T15:09:26Z", "2026-03-14T00:00:00Z", "2026-03-15T00:00:00Z"},
		{"a day's first instant", Day, "2026-03-14T00:00:00Z", "2026-03-14T00:00:00Z", "2026-03-15T00:00:00Z"},
		{"a day's last instant", Day, "2026-03-14T23:59:59.999999999Z", "2026-03-14T00:00:00Z", "2026-03-15T00:00:00Z"},
		{"the day is UTC's", Day, "2026-03-14T22:00:00-05:00", "2026-03-15T00:00:00Z", "2026-03-16T00:00:00Z"},
		{"leap day", Day, "2028-02-29T12:00:00Z", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"the year's last day", Day, "2026-12-31T12:00:00Z", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},

		{"a week on Monday", Week, "2026-03-09T00:00:00Z", "2026-03-09T00:00:00Z", "2026-03-16T00:00:00Z"},
		{"a week on Wednesday", Week, "2026-03-11T10:00:00Z", "2026-03-09T00:00:00Z", "2026-03-16T00:00:00Z"},
		{"a week on Sunday", Week, "2026-03-15T23:59:59Z", "2026-03-09T00:00:00Z", "2026-03-16T00:00:00Z"},
		{"a week over the year's end", Week, "2026-01-01T00:00:00Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"a week over leap day", Week, "2028-03-01T00:00:00Z", "2028-02-28T00:00:00Z", "2028-03-06T00:00:00Z"},
		{"Sunday in New York is Monday in UTC", Week, "2026-03-15T22:00:00-04:00", "2026-03-16T00:00:00Z", "2026-03-23T00:00:00Z"},

		{"a month of 31 days", Month, "2026-01-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"a month of 28 days", Month, "2026-02-28T12:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"a month of 29 days", Month, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"a century without a leap day", Month, "2100-02-28T12:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"},
		{"a month of 30 days", Month, "2026-04-30T12:00:00Z", "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"},
		{"December", Month, "2026-12-31T23:59:59.9Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"the month is UTC's", Month, "2026-01-31T20:00:00-08:00", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339Nano, tt.at)
			check.OK(t, err)
			if got := tt.period.Start(at).Format(time.RFC3339Nano); got != tt.start {
				t.Errorf("start: got %s, want %s", got, tt.start)
			}
			if got := tt.period.End(at).Format(time.RFC3339Nano); got != tt.end {
				t.Errorf("end: got %s, want %s", got, tt.end)
			}
		})
	}
}

// TestPeriodsTile visits every day of 400 years.
func TestPeriodsTile(t *testing.T) {
	t.Parallel()
	for _, p := range []Period{Day, Week, Month} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			at := time.Date(2000, 1, 1, 11, 0, 0, 0, time.UTC)
			start := p.Start(at)
			for ; at.Year() < 2400; at = at.AddDate(0, 0, 1) {
				if p.Start(at).After(at) || !p.End(at).After(at) {
					t.Fatalf("%s is not in its period", at)
				}
				if next := p.Start(at); !next.Equal(start) {
					if !next.Equal(p.End(start)) {
						t.Fatalf("end of the period from %s: got %s, want the start of the next one", start, next)
					}
					start = next
				}
				if p == Week && p.Start(at).Weekday() != time.Monday {
					t.Fatalf("week of %s: got a start on %s, want Monday", at, p.Start(at).Weekday())
				}
			}
		})
	}
}

func TestMode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mode  Mode
		quota int64
		want  problem.Code // "" if it is valid
	}{
		{Soft, 1, ""},
		{Hard, 1, ""},
		{Soft, 0, problem.InvalidQuota},
		{Hard, 0, problem.InvalidQuota},
		{"", 1, problem.InvalidQuota},
		{"firm", 1, problem.InvalidQuota},
		{"HARD", 1, problem.InvalidQuota},
	}
	for _, tt := range tests {
		check.Problem(t, CheckMode(tt.mode, tt.quota), tt.want)
		if l := (Limits{Quota: tt.quota, Hard: tt.mode == Hard}); tt.want == "" && l.Mode() != tt.mode {
			t.Errorf("mode of %+v: got %q", l, l.Mode())
		}
	}
	if m := (Limits{}).Mode(); m != "" {
		t.Errorf("mode without a quota: got %q, want none", m)
	}
}

func TestPeriodValid(t *testing.T) {
	t.Parallel()
	for p, want := range map[Period]bool{Day: true, Week: true, Month: true, "": false, "year": false, "DAY": false} {
		if p.Valid() != want {
			t.Errorf("%q.Valid(): got %t", p, !want)
		}
	}
}
