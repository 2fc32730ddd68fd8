package bench

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *bench) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var m strings.Builder
	m.WriteString("# Benchmark results\n\n`make bench` writes this page. Compared measurements took turns in one run. Values are medians, with the minimum and\nmaximum in parentheses. Absolute values differ between machines and from hour to hour: compare the ratios.\n\n")
	fmt.Fprintf(&m, "%s, %d processors, %s, %s, %.0f minutes.\n\n", processorName(), runtime.NumCPU(), runtime.Version(), b.began.UTC().Format("2006-01-02 15:04 MST"), time.Since(b.began).Minutes())
	m.WriteString("| measurement | result | target | |\n|---|---|---|---|\n")
	for _, r := range b.rows {
		verdict := r.verdict()
		if r.bar == "" {
			verdict = ""
		}
		fmt.Fprintf(&m, "| %s | %s | %s | %s |\n", r.what, r.figure, r.bar, verdict)
	}
	for _, n := range b.notes {
		fmt.Fprintf(&m, "\n%s\n", n)
	}
	m.WriteString("\n## Growth\n")
	for i, p := range b.plots {
		name := fmt.Sprintf("growth-%d.svg", i+1)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.svg()), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&m, "\n![%s](%s)\n\n%s\n", p.heading(), name, p.table())
	}
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(m.String()), 0o644)
}

// processorName returns the model name on Linux, or the architecture.
func processorName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

type plot struct {
	title, unit string
	points      []point
}

type point struct {
	keys  int
	value float64
}

func (p plot) heading() string {
	if p.unit == "" {
		return p.title
	}
	return p.title + " (" + p.unit + ")"
}

func (p plot) table() string {
	var head, rule, values strings.Builder
	for _, at := range p.points {
		fmt.Fprintf(&head, "| %d keys ", at.keys)
		rule.WriteString("|---")
		fmt.Fprintf(&values, "| %s ", strings.TrimSpace(figure(at.value)+" "+p.unit))
	}
	return head.String() + "|\n" + rule.String() + "|\n" + values.String() + "|"
}

// figure formats three significant digits.
func figure(v float64) string {
	if v >= 100 || v == 0 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.*f", max(0, 2-int(math.Floor(math.Log10(math.Abs(v))))), v)
}

// svg draws a plot. Each point has ten times the number of keys of the previous one.
func (p plot) svg() string {
	const width, height, left, bottom, top = 560, 260, 70, 40, 40
	most := 0.0
	for _, at := range p.points {
		most = max(most, at.value)
	}
	if most <= 0 {
		most = 1
	}
	x := func(i int) float64 {
		return left + 30 + float64(i)*float64(width-left-60)/float64(max(len(p.points)-1, 1))
	}
	y := func(v float64) float64 { return height - bottom - v/most*(height-bottom-top) }
	var s, line strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#fff"/><text x="%d" y="20" font-size="14">%s</text>`+"\n", width, height, left, p.heading())
	for _, part := range []float64{0, 0.5, 1} {
		fmt.Fprintf(&s, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, width-10, y(most*part), y(most*part), left-6, y(most*part)+4, figure(most*part))
	}
	for i, at := range p.points {
		fmt.Fprintf(&line, "%.1f,%.1f ", x(i), y(at.value))
		fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3" fill="#0b5"/><text x="%.1f" y="%d" text-anchor="middle">%d</text><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			x(i), y(at.value), x(i), height-bottom+18, at.keys, x(i), y(at.value)-8, figure(at.value))
	}
	fmt.Fprintf(&s, `<polyline points="%s" fill="none" stroke="#0b5" stroke-width="2"/></svg>`+"\n", strings.TrimSpace(line.String()))
	return s.String()
}
