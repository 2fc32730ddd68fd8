package plan

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/problem"
)

func TestLimitsCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		limits Limits
		want   problem.Code // "" is accepted
	}{
		{"least", Limits{Rate: 0.01, Burst: 1}, ""},
		{"most", Limits{Rate: 100_000, Burst: 1_000_000, Quota: 1_000_000_000_000, Period: Month}, ""},
		{"least quota", Limits{Rate: 1, Burst: 1, Quota: 1, Period: Day}, ""},
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
		{"negative quota", Limits{Rate: 1, Burst: 1, Quota: -1, Period: Day}, problem.InvalidQuota},
		{"quota too high", Limits{Rate: 1, Burst: 1, Quota: 1_000_000_000_001, Period: Day}, problem.InvalidQuota},
		{"unknown period", Limits{Rate: 1, Burst: 1, Quota: 1, Period: "year"}, problem.InvalidQuota},
		{"period in another case", Limits{Rate: 1, Burst: 1, Quota: 1, Period: "Day"}, problem.InvalidQuota},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.limits.Check(), tt.want)
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
		{"nothing for an id", "–––", problem.InvalidName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expect(t, CheckName(tt.in), tt.want)
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

// Every name that is accepted makes an id that is accepted as part of an address.
func FuzzIDFor(f *testing.F) {
	for _, s := range []string{"Starter", "é1", "a b", "K", "İ9", "\x00", "ẞa", strings.Repeat("a", 63)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := CheckName(name)
		id := string(IDFor(name))
		if err == nil && !ValidID(id) {
			t.Errorf("name %q is accepted, its id %q is not", name, id)
		}
		if err == nil && (!utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r\x7f")) {
			t.Errorf("name %q is accepted", name)
		}
	})
}

func expect(t *testing.T, err error, want problem.Code) {
	t.Helper()
	if want == "" && err != nil {
		t.Errorf("refused: %v", err)
	}
	if want != "" && !problem.Is(err, want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
