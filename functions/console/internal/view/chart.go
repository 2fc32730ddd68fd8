package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/wire"
)

// The plot is stretched to the available width. Its horizontal unit is a day, and its vertical unit
// is a thousandth of the height. Text is outside the plot, where it is not stretched.
const (
	plotUnits  = 1000 // height of the plot in units
	plotTop    = 16   // pixels above the plot
	plotHeight = 200  // pixels
	barWidth   = 0.8  // of a day
	maxLabels  = 4    // dates below the plot; more would overlap at a width of 390 pixels
	wantTicks  = 4    // maximum number of lines above zero
)

// Chart is the usage per day, as stacked bars and as a table, for the template usage_chart.
type Chart struct {
	From, To string          // "14 March 2026"
	Rows     []wire.UsageDay // of the table, newest first
	Totals   wire.UsageTotals

	Days   int // width of the plot in units
	Units  int // height of the plot in units
	Top    int // pixels above the plot
	Plot   int // height of the plot in pixels
	Height int // total height in pixels
	Series []Series
	Ticks  []tick
	Labels []dateLabel
	Hints  []hint
	About  string // description for screen readers

	Incomplete string // days with incomplete counts: "14 March 2026, 15 March 2026"
}

// Series holds the segments of one outcome in all bars.
type Series struct {
	Class string // of the style sheet
	Path  string // SVG path data in plot units, or ""
}

type tick struct {
	Y     string // pixels from the top
	Text  string // "1.5K"
	TextY string // pixels from the top
}

type dateLabel struct {
	X      string // "12.5%"
	Y      string // pixels from the top
	Anchor string // start, middle or end
	Text   string // "14 Mar"
}

type hint struct {
	X    int // in plot units
	Text string
}

// NewChart returns the chart of consecutive days. incomplete holds the dates with incomplete
// counts.
func NewChart(days []wire.UsageDay, incomplete ...string) Chart {
	lines, step := scale(days)
	top := float64(lines) * step
	c := Chart{
		Days: max(len(days), 1), Units: plotUnits, Top: plotTop, Plot: plotHeight, Height: plotTop + plotHeight + 28,
		Series: stack(days, top), Labels: dateLabels(days), About: about(days),
		Rows: slices.Clone(days), Totals: Totals(days),
	}
	slices.Reverse(c.Rows)
	if n := len(days); n > 0 {
		c.From, c.To = LongDate(days[0].Date), LongDate(days[n-1].Date)
	}
	for i := range lines + 1 {
		y := plotTop + plotHeight*(1-float64(i)/float64(lines))
		c.Ticks = append(c.Ticks, tick{Y: pixels(y), Text: short(float64(i) * step), TextY: pixels(y + 4)})
	}
	var lacking []string
	for i, d := range days {
		if slices.Contains(incomplete, d.Date) {
			lacking = append(lacking, LongDate(d.Date))
		}
		if d.UsageTotals != (wire.UsageTotals{}) {
			c.Hints = append(c.Hints, hint{X: i, Text: dayText(d)})
		}
	}
	c.Incomplete = strings.Join(lacking, ", ")
	return c
}

// Totals returns the sum of the days.
func Totals(days []wire.UsageDay) (sum wire.UsageTotals) {
	for _, d := range days {
		sum.Allowed += d.Allowed
		sum.RateDenied += d.RateDenied
		sum.QuotaDenied += d.QuotaDenied
	}
	return sum
}

// Bars returns the bars of a chart without axes and labels.
func Bars(days []wire.UsageDay) []Series {
	lines, step := scale(days)
	return stack(days, float64(lines)*step)
}

func stack(days []wire.UsageDay, top float64) []Series {
	parts := []struct {
		class string
		of    func(wire.UsageTotals) uint64
	}{
		{"allowed", func(t wire.UsageTotals) uint64 { return t.Allowed }},
		{"rate", func(t wire.UsageTotals) uint64 { return t.RateDenied }},
		{"quota", func(t wire.UsageTotals) uint64 { return t.QuotaDenied }},
	}
	below := make([]float64, len(days))
	out := make([]Series, len(parts))
	for n, part := range parts {
		var path strings.Builder
		for i, d := range days {
			v := float64(part.of(d.UsageTotals))
			if v == 0 {
				continue
			}
			from, to := height(below[i], top), height(below[i]+v, top)
			left := float64(i) + (1-barWidth)/2
			// Draw a count above zero at least as a thin line.
			fmt.Fprintf(&path, "M%.1f %dV%dh%.1fV%dz", left, plotUnits-from, plotUnits-max(to, from+4), barWidth, plotUnits-from)
			below[i] += v
		}
		out[n] = Series{Class: part.class, Path: path.String()}
	}
	return out
}

// scale returns the number of lines above zero and their distance, which is 1, 2 or 5 times a power
// of ten. No bar is higher than the top line.
func scale(days []wire.UsageDay) (lines int, step float64) {
	most := 1.0
	for _, d := range days {
		most = max(most, all(d.UsageTotals))
	}
	for power := 1.0; ; power *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if n := math.Ceil(most / (m * power)); n <= wantTicks {
				return int(n), m * power
			}
		}
	}
}

func dateLabels(days []wire.UsageDay) []dateLabel {
	if len(days) == 0 {
		return nil
	}
	step := (len(days) + maxLabels - 1) / maxLabels
	var labels []dateLabel
	for i := (len(days) - 1) % step; i < len(days); i += step {
		center := (float64(i) + 0.5) / float64(len(days)) * 100
		l := dateLabel{X: fmt.Sprintf("%.1f%%", center), Y: pixels(plotTop + plotHeight + 20), Anchor: "middle", Text: shortDate(days[i].Date)}
		switch {
		case len(days) > 1 && center < 5:
			l.Anchor, l.X = "start", "0%"
		case len(days) > 1 && center > 95:
			l.Anchor, l.X = "end", "100%"
		}
		labels = append(labels, l)
	}
	return labels
}

func about(days []wire.UsageDay) string {
	if len(days) == 0 {
		return "No days."
	}
	var most wire.UsageDay
	for _, d := range days {
		if all(d.UsageTotals) > all(most.UsageTotals) {
			most = d
		}
	}
	span := fmt.Sprintf("From %s to %s", LongDate(days[0].Date), LongDate(days[len(days)-1].Date))
	if most.Date == "" {
		return span + " there were no requests."
	}
	return fmt.Sprintf("%s. The busiest day was %s.", span, dayText(most))
}

// dayText describes a day: "14 March 2026: 1,200 allowed, 3 rate-denied".
func dayText(d wire.UsageDay) string {
	parts := []string{Comma(d.Allowed) + " allowed"}
	if d.RateDenied > 0 {
		parts = append(parts, Comma(d.RateDenied)+" rate-denied")
	}
	if d.QuotaDenied > 0 {
		parts = append(parts, Comma(d.QuotaDenied)+" quota-denied")
	}
	return LongDate(d.Date) + ": " + strings.Join(parts, ", ")
}

func all(t wire.UsageTotals) float64 {
	return float64(t.Allowed) + float64(t.RateDenied) + float64(t.QuotaDenied)
}

func height(v, top float64) int { return int(math.Round(v / top * plotUnits)) }

func pixels(y float64) string { return fmt.Sprintf("%.0f", y) }

// short formats a count for an axis: "950", "1.5K", "20M", "3B".
func short(v float64) string {
	units := []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}}
	for _, u := range units {
		if v >= u.of {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", v/u.of), ".0") + u.name
		}
	}
	return fmt.Sprint(v)
}
