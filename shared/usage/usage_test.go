package usage

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

func TestDay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		at   time.Time
		want string
	}{
		{"the first day", time.Unix(0, 0), "1970-01-01"},
		{"before it", time.Unix(-1, 0), "1969-12-31"},
		{"a day's first instant", time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC), "2028-02-29"},
		{"a day's last instant", time.Date(2028, 2, 29, 23, 59, 59, 999999999, time.UTC), "2028-02-29"},
		{"another zone's day", time.Date(2028, 3, 1, 1, 0, 0, 0, time.FixedZone("", 2*3600)), "2028-02-29"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := DayOf(tt.at)
			if d.String() != tt.want || d != day(t, tt.want) || DayOf(d.Start()) != d || DayOf(d.End()) != d+1 {
				t.Errorf("time %s: got day %s", tt.at, d)
			}
		})
	}
}

func TestParseDayRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "2028", "2028-2-9", "2027-02-29", "2028-02-30", "2028-13-01", "2028-00-10", "2028-01-00", "20280101", "2028/01/01",
		"2028-01-01T00:00:00Z", " 2028-01-01", "2028-01-01 ", "today", "-028-01-01", "12028-01-01", "２０２８-01-01", "2028-01-0\x00",
	} {
		if d, err := ParseDay(s); !problem.Is(err, problem.InvalidDate) {
			t.Errorf("ParseDay(%q): got %s, %v, want invalid_date", s, d, err)
		}
	}
}

func FuzzParseDay(f *testing.F) {
	f.Add("2028-02-29")
	f.Add("0000-01-01")
	f.Add("9999-12-31")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDay(s); err == nil && d.String() != s {
			t.Errorf("ParseDay(%q): got %s", s, d)
		}
	})
}
