package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func report(allowed ...uint64) wire.UsageReport {
	u := wire.UsageReport{To: now.Format(time.DateOnly)}
	for i, n := range allowed {
		d := wire.UsageDay{Date: now.AddDate(0, 0, i+1-len(allowed)).Format(time.DateOnly), UsageTotals: wire.UsageTotals{Allowed: n}}
		u.Days = append(u.Days, d)
		u.Totals.Allowed += n
	}
	u.From = u.Days[0].Date
	return u
}

// TestUsageLines compares lines as "name allowed", with "|" for a bar.
func TestUsageLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		allowed []uint64
		drawn   int
		want    []string
	}{
		{"all", []uint64{5, 6}, 0, []string{"2026-03-13 5|", "2026-03-14 6|", "total 11"}},
		{"the last", []uint64{1, 2, 3, 4}, 2, []string{"earlier 3", "2026-03-13 3|", "2026-03-14 4|", "total 10"}},
		{"as many as there are", []uint64{3, 4}, 2, []string{"2026-03-13 3|", "2026-03-14 4|", "total 7"}},
		{"fewer than there could be", []uint64{4}, 14, []string{"2026-03-14 4|", "total 4"}},
		{"one idle day", []uint64{3, 0, 4}, 0, []string{"2026-03-12 3|", "2026-03-13 0|", "2026-03-14 4|", "total 7"}},
		{"idle days", []uint64{0, 0, 0, 4, 0, 0}, 0, []string{"3 days 0", "2026-03-12 4|", "2 days 0", "total 4"}},
		{"no requests", []uint64{0, 0, 0}, 0, []string{"3 days 0", "total 0"}},
		{"idle days among the earlier ones", []uint64{7, 0, 0, 0}, 2, []string{"earlier 7", "2 days 0", "total 7"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, l := range usageLines(report(tt.allowed...), tt.drawn) {
				text := fmt.Sprintf("%s %d", l.name, l.Allowed)
				if l.bar {
					text += "|"
				}
				got = append(got, text)
			}
			check.Equal(t, "lines", tt.want, got)
		})
	}
}

func TestQuotaLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		quota string
		line  string
	}{
		{"a day's", `{"quota":1000,"period":"day","used":250,"resets_at":"2026-03-15T00:00:00Z"}`, "250 of 1000 per day (25%), resets 2026-03-15"},
		{"a little", `{"quota":1000,"period":"week","used":6,"resets_at":"2026-03-16T00:00:00Z"}`, "6 of 1000 per week (under 1%), resets 2026-03-16"},
		{"nearly all", `{"quota":1000,"period":"day","used":999,"resets_at":"2026-03-15T00:00:00Z"}`, "999 of 1000 per day (99%), resets 2026-03-15"},
		{"nothing", `{"quota":1000,"period":"day","used":0,"resets_at":"2026-03-15T00:00:00Z"}`, "0 of 1000 per day (0%), resets 2026-03-15"},
		{"more than all", `{"quota":100,"period":"day","used":150,"resets_at":"2026-03-15T00:00:00Z"}`, "150 of 100 per day (150%), resets 2026-03-15"},
		{"none", `null`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			answers := shop()
			answers["GET /projects/shop/api-keys/key-ab12cd34"] = ok(strings.Replace(keyJSON, quotaJSON, tt.quota, 1))
			r := newPerson(t, newFake(t, answers).URL).runs("key", "usage", "key-ab12cd34")
			if r.exit != 0 || !strings.Contains(r.out, tt.line) || strings.Contains(r.out, "Quota:") != (tt.line != "") {
				t.Errorf("got %swant %q", r, tt.line)
			}
		})
	}
}

// A narrow terminal hides columns and reports that; -o wide shows all columns.
func TestWide(t *testing.T) {
	t.Parallel()
	for format, hides := range map[string]bool{"table": true, "wide": false} {
		p := newPerson(t, newFake(t, shop()).URL)
		p.width = 60
		r := p.runs("key", "list", "-o", format)
		if r.exit != 0 || strings.Contains(r.out, "hidden: -o wide\n") != hides || strings.Contains(r.out, "ENVIRONMENT") == hides {
			t.Errorf("-o %s: got %s", format, r)
		}
	}
	if r := newPerson(t, newFake(t, shop()).URL).runs("logout", "-o", "wide"); r.out != "Signed out.\n" {
		t.Errorf("%s", r)
	}
}
