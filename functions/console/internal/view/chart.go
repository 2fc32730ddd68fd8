package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/wire"
)

// The plot is stretched to the available width. Its horizontal unit is a point, such as a day, and
// its vertical unit is a thousandth of the height. Text is outside the plot, where it is not
// stretched.
const (
	plotUnits  = 1000 // height of the plot in units
	plotTop    = 16   // pixels above the plot
	plotHeight = 200  // pixels
	barWidth   = 0.8  // of a point
	maxLabels  = 4    // labels below the plot; more would overlap at a width of 390 pixels
	wantTicks  = 4    // maximum number of lines above zero
)

// Plot is the data of a chart: a count of each measure for each of consecutive points in time, such
// as the last 60 minutes or 90 days.
type Plot struct {
	Title    string // "Requests per day"
	Unit     string // of a point: "Day"
	ID       string // prefix of the chart's element IDs; "" is enough for the only chart of a page
	Measures []Measure
	Points   []Point
}

// Measure is a part of a bar, with the same color in all bars.
type Measure struct {
	Class string // of the style sheet: allowed, rate, quota or key (requests without a valid key)
	Name  string // after a number, in lower case: "rate-denied"
}

// Heading returns the name as the heading of a column: "Rate-denied".
func (m Measure) Heading() string { return strings.ToUpper(m.Name[:1]) + m.Name[1:] }

// Point is a bar.
type Point struct {
	Label  string   // "14 March 2026", "09:43"
	Short  string   // below the plot: "14 Mar"
	Counts []uint64 // of each measure
}

func (p Point) total() float64 {
	sum := 0.0
	for _, n := range p.Counts {
		sum += float64(n)
	}
	return sum
}

// Chart is a drawn [Plot]: stacked bars and a table with the same numbers, for the template
// usage_chart.
type Chart struct {
	Plot

	From, To string   // labels of the first and the last point
	Rows     []Point  // of the table, newest first
	Sums     []uint64 // of each measure
	Empty    bool     // all counts are zero; then nothing is drawn

	Units  int // height of the plot in units
	Top    int // pixels above the plot
	Pixels int // height of the plot
	Height int // total height in pixels
	Series []Series
	Ticks  []tick
	Labels []axisLabel
	Hints  []string // of each point: "14 March 2026: 1,200 allowed, 3 rate-denied"
	About  string   // description for screen readers

	Incomplete string // days with incomplete counts: "14 March 2026, 15 March 2026"
}

// Series holds the segments of one measure in all bars.
type Series struct {
	Class string // of the style sheet
	Path  string // SVG path data in plot units, or ""
}

type tick struct {
	Y     string // pixels from the top
	Text  string // "1.5K"
	TextY string // pixels from the top
}

type axisLabel struct {
	X      string // "12.5%"
	Y      string // pixels from the top
	Anchor string // start, middle or end
	Text   string // "14 Mar"
}

// Last returns the index of the last point.
func (c Chart) Last() int { return len(c.Points) - 1 }

// Draw returns the chart of a plot.
func (p Plot) Draw() Chart {
	p.ID = cmp.Or(p.ID, "chart")
	lines, step := scale(p.Points)
	c := Chart{
		Plot: p, Sums: sums(p), Empty: true, Rows: slices.Clone(p.Points),
		Units: plotUnits, Top: plotTop, Pixels: plotHeight, Height: plotTop + plotHeight + 28,
		Series: stack(p, float64(lines)*step), Labels: axisLabels(p.Points), About: about(p),
	}
	slices.Reverse(c.Rows)
	for _, point := range p.Points {
		c.Empty = c.Empty && point.total() == 0
		c.Hints = append(c.Hints, point.Label+": "+countsText(p.Measures, point))
	}
	if n := len(p.Points); n > 0 {
		c.From, c.To = p.Points[0].Label, p.Points[n-1].Label
	}
	for i := range lines + 1 {
		y := plotTop + plotHeight*(1-float64(i)/float64(lines))
		c.Ticks = append(c.Ticks, tick{Y: pixels(y), Text: short(float64(i) * step), TextY: pixels(y + 4)})
	}
	return c
}

func sums(p Plot) []uint64 {
	all := make([]uint64, len(p.Measures))
	for _, point := range p.Points {
		for i, n := range point.Counts {
			all[i] += n
		}
	}
	return all
}

// outcome is a measure of usage reports.
type outcome struct {
	Measure

	of func(wire.UsageTotals) uint64
}

func outcomes() []outcome {
	return []outcome{
		{Measure{"allowed", "allowed"}, func(t wire.UsageTotals) uint64 { return t.Allowed }},
		{Measure{"rate", "rate-denied"}, func(t wire.UsageTotals) uint64 { return t.RateDenied }},
		{Measure{"quota", "quota-denied"}, func(t wire.UsageTotals) uint64 { return t.QuotaDenied }},
	}
}

// Days returns the plot of consecutive days.
func Days(days []wire.UsageDay) Plot {
	p := Plot{Title: "Requests per day", Unit: "Day"}
	all := outcomes()
	for _, o := range all {
		p.Measures = append(p.Measures, o.Measure)
	}
	for _, d := range days {
		point := Point{Label: LongDate(d.Date), Short: shortDate(d.Date)}
		for _, o := range all {
			point.Counts = append(point.Counts, o.of(d.UsageTotals))
		}
		p.Points = append(p.Points, point)
	}
	return p
}

// NewChart returns the chart of consecutive days. incomplete holds the dates with incomplete
// counts.
func NewChart(days []wire.UsageDay, incomplete ...string) Chart {
	c := Days(days).Draw()
	var lacking []string
	for _, d := range days {
		if slices.Contains(incomplete, d.Date) {
			lacking = append(lacking, LongDate(d.Date))
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

// Bars returns the bars of a chart of days, without axes and labels. It returns nil without
// requests.
func Bars(days []wire.UsageDay) []Series {
	c := Days(days).Draw()
	if c.Empty {
		return nil
	}
	return c.Series
}

func stack(p Plot, top float64) []Series {
	below := make([]float64, len(p.Points))
	out := make([]Series, len(p.Measures))
	for n, measure := range p.Measures {
		var path strings.Builder
		for i, point := range p.Points {
			v := float64(point.Counts[n])
			if v == 0 {
				continue
			}
			from, to := height(below[i], top), height(below[i]+v, top)
			left := float64(i) + (1-barWidth)/2
			// Draw a count above zero at least as a thin line.
			fmt.Fprintf(&path, "M%.1f %dV%dh%.1fV%dz", left, plotUnits-from, plotUnits-max(to, from+4), barWidth, plotUnits-from)
			below[i] += v
		}
		out[n] = Series{Class: measure.Class, Path: path.String()}
	}
	return out
}

// scale returns the number of lines above zero and their distance, which is 1, 2 or 5 times a power
// of ten. No bar is higher than the top line.
func scale(points []Point) (lines int, step float64) {
	most := 1.0
	for _, p := range points {
		most = max(most, p.total())
	}
	for power := 1.0; ; power *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if n := math.Ceil(most / (m * power)); n <= wantTicks {
				return int(n), m * power
			}
		}
	}
}

func axisLabels(points []Point) []axisLabel {
	if len(points) == 0 {
		return nil
	}
	step := (len(points) + maxLabels - 1) / maxLabels
	var labels []axisLabel
	for i := (len(points) - 1) % step; i < len(points); i += step {
		center := (float64(i) + 0.5) / float64(len(points)) * 100
		l := axisLabel{X: fmt.Sprintf("%.1f%%", center), Y: pixels(plotTop + plotHeight + 20), Anchor: "middle", Text: points[i].Short}
		switch {
		case len(points) > 1 && center < 5:
			l.Anchor, l.X = "start", "0%"
		case len(points) > 1 && center > 95:
			l.Anchor, l.X = "end", "100%"
		}
		labels = append(labels, l)
	}
	return labels
}

func about(p Plot) string {
	if len(p.Points) == 0 {
		return "No data."
	}
	most := p.Points[0]
	for _, point := range p.Points {
		if point.total() > most.total() {
			most = point
		}
	}
	return fmt.Sprintf("From %s to %s. Maximum: %s, %s.", p.Points[0].Label, p.Points[len(p.Points)-1].Label, most.Label, countsText(p.Measures, most))
}

// countsText describes the counts of a point: "1,200 allowed, 3 rate-denied".
func countsText(measures []Measure, p Point) string {
	var parts []string
	for i, n := range p.Counts {
		if n > 0 {
			parts = append(parts, Comma(n)+" "+measures[i].Name)
		}
	}
	if len(parts) == 0 {
		return "no requests"
	}
	return strings.Join(parts, ", ")
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
