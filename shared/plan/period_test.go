package plan

import (
	"testing"
	"time"
)

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
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.period.Start(at).Format(time.RFC3339Nano); got != tt.start {
				t.Errorf("start %s, want %s", got, tt.start)
			}
			if got := tt.period.End(at).Format(time.RFC3339Nano); got != tt.end {
				t.Errorf("end %s, want %s", got, tt.end)
			}
		})
	}
}

// Periods tile time: each holds its start, ends where the next one starts, and a
// walk over 400 years of days sees no gap.
func TestPeriodsTile(t *testing.T) {
	t.Parallel()
	for _, p := range []Period{Day, Week, Month} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			at := time.Date(2000, 1, 1, 11, 0, 0, 0, time.UTC)
			start := p.Start(at)
			for ; at.Year() < 2400; at = at.AddDate(0, 0, 1) {
				if p.Start(at).After(at) || !p.End(at).After(at) {
					t.Fatalf("%s lies outside its own period", at)
				}
				if next := p.Start(at); !next.Equal(start) {
					if !next.Equal(p.End(start)) {
						t.Fatalf("after the period from %s comes the one from %s", start, next)
					}
					start = next
				}
				if p == Week && p.Start(at).Weekday() != time.Monday {
					t.Fatalf("the week of %s starts on a %s", at, p.Start(at).Weekday())
				}
			}
		})
	}
}

func TestPeriodValid(t *testing.T) {
	t.Parallel()
	for p, want := range map[Period]bool{Day: true, Week: true, Month: true, "": false, "year": false, "DAY": false} {
		if p.Valid() != want {
			t.Errorf("%q.Valid() = %t", p, !want)
		}
	}
}
