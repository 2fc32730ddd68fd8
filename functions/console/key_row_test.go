package console

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestExpiryBadge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	amber := func(s string) badge { return badge{"amber", s} }
	tests := []struct {
		name   string
		status string
		left   time.Duration // 0 means no expiry
		want   badge
	}{
		{"never", "active", 0, badge{}},
		{"a year", "active", 365 * 24 * time.Hour, badge{}},
		{"before the last two weeks", "active", 14*24*time.Hour + 1, badge{}},
		{"begin of the last two weeks", "active", 14 * 24 * time.Hour, amber("Expires in 14 days")},
		{"a disabled key too", "disabled", 3 * 24 * time.Hour, amber("Expires in 3 days")},
		{"days are not rounded up", "active", 2*24*time.Hour - 1, amber("Expires in 1 day")},
		{"hours", "active", 24*time.Hour - 1, amber("Expires in 23 hours")},
		{"an hour", "active", 2*time.Hour - 1, amber("Expires in 1 hour")},
		{"less than an hour", "active", 1, amber("Expires in less than an hour")},
		{"just expired", "expired", -1, badge{"bad", "Expired"}},
		{"disabled and expired", "disabled", -time.Hour, badge{"bad", "Expired"}},
		{"revoked and expired", "revoked", -time.Hour, badge{}},
		{"revoked", "revoked", time.Hour, badge{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := wire.Key{Status: tt.status}
			if tt.left != 0 {
				at := now.Add(tt.left)
				k.ExpiresAt = &at
			}
			check.Equal(t, "badge", tt.want, expiryBadge(k.Status, k.ExpiresAt, now))
		})
	}
	at := now
	if got := expiryBadge("active", &at, now); got.Tone != "bad" {
		t.Errorf("at the time of the expiry: got %+v, want tone bad", got)
	}
}

func TestExpiryFor(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, date, want string }{
		{"a day", "2026-03-14", "2026-03-15T00:00:00Z"},
		{"the year's last", "2026-12-31", "2027-01-01T00:00:00Z"},
		{"before leap day", "2028-02-28", "2028-02-29T00:00:00Z"},
		{"no such day", "2026-02-30", "2026-02-30"},
		{"no date", "soon", "soon"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := expiryFor(tt.date); got != tt.want {
				t.Errorf("expiryFor(%q) = %q, want %q", tt.date, got, tt.want)
			}
		})
	}
}

func TestLastDayIsTheInverse(t *testing.T) {
	t.Parallel()
	for day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2100; day = day.AddDate(0, 0, 1) {
		date := day.Format(time.DateOnly)
		at, err := time.Parse(time.RFC3339, expiryFor(date))
		check.OK(t, err)
		if got, exact := lastDay(&at); got != date || !exact {
			t.Fatalf("%s: got %s, exact %t", date, got, exact)
		}
		if last := at.Add(-1); last.Format(time.DateOnly) != date {
			t.Fatalf("last second of a key valid through %s: got %s", date, last)
		}
	}
}

func TestExpiryText(t *testing.T) {
	t.Parallel()
	midnight, noon := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 15, 12, 30, 0, 0, time.UTC)
	elsewhere := midnight.In(time.FixedZone("", 3600))
	tests := []struct {
		name string
		at   *time.Time
		want string
		date string
	}{
		{"never", nil, "Never", ""},
		{"the end of a day", &midnight, "14 March 2026", "2026-03-14"},
		{"the same in another zone", &elsewhere, "14 March 2026", "2026-03-14"},
		{"in the middle of a day", &noon, "15 March 2026, 12:30 UTC", "2026-03-15"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := expiryText(tt.at); got != tt.want {
				t.Errorf("text: got %q, want %q", got, tt.want)
			}
			if got, _ := lastDay(tt.at); got != tt.date {
				t.Errorf("date: got %q, want %q", got, tt.date)
			}
		})
	}
}

func TestShortScope(t *testing.T) {
	t.Parallel()
	for want, apps := range map[string][]string{"a, b, c": {"a", "b", "c"}, "a, b, c and 2 more": {"a", "b", "c", "d", "e"}} {
		row := keyRow{Key: wire.Key{Apps: apps}, Scope: scopeText(apps)}
		if got := row.ShortScope(); got != want {
			t.Errorf("%q: got %q, want %q", apps, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64]string{
		0: "0%", 0.000_01: "less than 0.1%", 0.002: "0.2%", 0.005: "0.5%", 0.0299: "2.9%", 0.29: "29%", 0.5: "50%", 0.999: "99%", 0.99999: "99%", 1: "100%",
	} {
		if got := percent(part); got != want {
			t.Errorf("%g: got %s, want %s", part, got, want)
		}
	}
}
