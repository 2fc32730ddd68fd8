package view

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

var update = flag.Bool("update", false, "update the golden files")

// days returns days from 2026-03-01, given as allowed, rate-denied and quota-denied counts.
func days(totals ...[3]uint64) []wire.UsageDay {
	out := make([]wire.UsageDay, len(totals))
	for i, t := range totals {
		date := time.Date(2026, 3, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		out[i] = wire.UsageDay{Date: date, UsageTotals: wire.UsageTotals{Allowed: t[0], RateDenied: t[1], QuotaDenied: t[2]}}
	}
	return out
}

func draw(t *testing.T, c Chart) string {
	t.Helper()
	var b bytes.Buffer
	check.OK(t, newTestRenderer(t).pages["overview"].ExecuteTemplate(&b, "usage_chart", c))
	return b.String()
}

func TestIncompleteDays(t *testing.T) {
	t.Parallel()
	const notice = "Counts are incomplete"
	week := days([3]uint64{1}, [3]uint64{2})
	if got := draw(t, NewChart(week, "2026-02-01", "2026-03-02")); !strings.Contains(got, notice) || !strings.Contains(got, "damaged: 2 March 2026.") {
		t.Errorf("the chart does not list 2 March 2026: %s", got)
	}
	if got := draw(t, NewChart(week, "2026-02-01")); strings.Contains(got, notice) {
		t.Errorf("the chart lists a day that it does not show: %s", got)
	}
}

func TestChartGolden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		days []wire.UsageDay
	}{
		{"week", days([3]uint64{120, 0, 0}, [3]uint64{0, 0, 0}, [3]uint64{90, 10, 0}, [3]uint64{1, 0, 0}, [3]uint64{0, 5, 40}, [3]uint64{}, [3]uint64{1500, 300, 200})},
		{"quiet", days([3]uint64{}, [3]uint64{}, [3]uint64{})},
		{"one", days([3]uint64{1, 0, 0})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := draw(t, NewChart(tt.days))
			file := filepath.Join("testdata", "chart_"+tt.name+".html")
			if *update {
				check.OK(t, os.WriteFile(file, []byte(got), 0o600))
			}
			want, err := os.ReadFile(file)
			check.OK(t, err)
			check.Equal(t, "chart", string(want), got)
		})
	}
}

func TestChartHasNothingInline(t *testing.T) {
	t.Parallel()
	got := draw(t, NewChart(days([3]uint64{1, 2, 3})))
	if bad := regexp.MustCompile(`(?i)style=|\son\w+=|<script`).FindString(got); bad != "" {
		t.Errorf("the chart contains %q", bad)
	}
}

// TestChartOfMinutes checks that the last hour uses the same chart, with a fourth measure.
func TestChartOfMinutes(t *testing.T) {
	t.Parallel()
	p := Plot{Title: "Requests per minute", Unit: "Minute", ID: "minutes", Measures: append(Days(nil).Measures, Measure{"key", "without a valid key"})}
	for i := range 60 {
		at := time.Date(2026, 3, 14, 9, i, 0, 0, time.UTC).Format("15:04")
		p.Points = append(p.Points, Point{Label: at, Short: at, Counts: []uint64{10, 0, 0, uint64(i)}})
	}
	got := draw(t, p.Draw())
	for _, want := range []string{
		"<strong>600</strong> allowed", "<strong>1,770</strong> without a valid key", `class="chart-key"`, `id="minutes-title"`, ">Without a valid key<",
		`<title>09:59: 10 allowed, 59 without a valid key</title>`, `aria-valuemax="59" aria-valuenow="59" aria-valuetext="09:59: 10 allowed, 59 without a valid key"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the chart does not contain %q: %s", want, got)
		}
	}
	if n := strings.Count(got, `class="chart-hint"`); n != 60 {
		t.Errorf("got %d values, want 60", n)
	}
	style, err := assetFiles.ReadFile("assets/style.css")
	check.OK(t, err)
	for _, m := range p.Measures {
		if !strings.Contains(string(style), ".chart-"+m.Class+" {") {
			t.Errorf("the style sheet has no color for %s", m.Class)
		}
	}
}

func TestEmptyChartHasNoAxis(t *testing.T) {
	t.Parallel()
	for _, c := range []Chart{NewChart(nil), NewChart(days([3]uint64{}, [3]uint64{}))} {
		if got := draw(t, c); strings.Contains(got, "<svg") || strings.Contains(got, "<table") || !strings.Contains(got, "No requests") {
			t.Errorf("got the chart %s", got)
		}
	}
	if got := Bars(days([3]uint64{}, [3]uint64{})); got != nil {
		t.Errorf("got the bars %v, want none", got)
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	tests := []struct {
		most  uint64
		lines int
		step  float64
	}{
		{0, 1, 1},
		{1, 1, 1},
		{4, 4, 1},
		{5, 3, 2},
		{8, 4, 2},
		{9, 2, 5},
		{20, 4, 5},
		{21, 3, 10},
		{999, 2, 500},
		{1_000_000, 2, 500_000},
		{math.MaxUint64, 4, 5e18},
	}
	for _, tt := range tests {
		lines, step := scale(Days(days([3]uint64{tt.most, 0, 0})).Points)
		if lines != tt.lines || step != tt.step {
			t.Errorf("up to %d: got %d lines of %g, want %d of %g", tt.most, lines, step, tt.lines, tt.step)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 5: "5", 950: "950", 1000: "1K", 1500: "1.5K", 20_000: "20K", 5e6: "5M", 2e9: "2B", 1e12: "1T",
	} {
		if got := short(v); got != want {
			t.Errorf("short(%g) = %q, want %q", v, got, want)
		}
	}
}

func TestAxisLabels(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 92; n++ {
		all := Days(days(make([][3]uint64, n)...)).Points
		labels := axisLabels(all)
		if len(labels) == 0 || len(labels) > maxLabels {
			t.Errorf("%d days: got %d labels, want 1 to %d", n, len(labels), maxLabels)
			continue
		}
		if got, want := labels[len(labels)-1].Text, all[n-1].Short; got != want {
			t.Errorf("%d days: last label: got %s, want %s", n, got, want)
		}
	}
	if got := axisLabels(nil); got != nil {
		t.Errorf("no days: got the labels %v", got)
	}
}

var bar = regexp.MustCompile(`M(\S+) (\d+)V(-?\d+)h0\.8V(\d+)z`)

// FuzzChart checks that bars are stacked, stay inside the plot and keep their order of size, and
// that no count above zero is missing.
func FuzzChart(f *testing.F) {
	f.Add(uint64(0), uint64(0), uint64(0), uint64(1), uint64(2), uint64(3))
	f.Add(uint64(1_000_000), uint64(1), uint64(0), uint64(10), uint64(0), uint64(7))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(1), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, a1, r1, q1, a2, r2, q2 uint64) {
		totals := [][3]uint64{{a1, r1, q1}, {a2, r2, q2}}
		c := NewChart(days(totals...))
		level := [2]int{plotUnits, plotUnits}
		for n, s := range c.Series {
			bars := bar.FindAllStringSubmatch(s.Path, -1)
			for _, b := range bars {
				x, _ := strconv.ParseFloat(b[1], 64)
				day := int(x)
				bottom, _ := strconv.Atoi(b[2])
				top, _ := strconv.Atoi(b[3])
				if bottom > level[day]+1 || bottom < level[day]-1 {
					t.Errorf("series %d of day %d: bottom: got %d, want %d", n, day, bottom, level[day])
				}
				if top >= bottom || top < -4*len(c.Series) || bottom > plotUnits {
					t.Errorf("invalid bar from %d to %d", bottom, top)
				}
				level[day] = plotUnits - height(below(totals[day], n), topOf(totals))
			}
			if want := counted(totals, n); len(bars) != want {
				t.Errorf("series %d: got %d bars, want %d", n, len(bars), want)
			}
		}
		if empty := a1 == 0 && r1 == 0 && q1 == 0 && a2 == 0 && r2 == 0 && q2 == 0; c.Empty != empty {
			t.Errorf("empty: got %t, want %t", c.Empty, empty)
		}
		if len(c.Ticks) < 2 || len(c.Ticks) > wantTicks+1 {
			t.Errorf("got %d ticks", len(c.Ticks))
		}
	})
}

func topOf(totals [][3]uint64) float64 {
	lines, step := scale(Days(days(totals...)).Points)
	return float64(lines) * step
}

func below(t [3]uint64, n int) float64 {
	sum := 0.0
	for _, v := range t[:n+1] {
		sum += float64(v)
	}
	return sum
}

func counted(totals [][3]uint64, n int) int {
	count := 0
	for _, t := range totals {
		if t[n] > 0 {
			count++
		}
	}
	return count
}
