package render

import (
	"fmt"
	"strings"
)

// Part is a stretch of a bar.
type Part struct {
	Value uint64
	Mark  rune // one column wide, e.g. '█'
	Tone  Tone
}

// Bar draws parts after each other; of together is as long as width columns. A part
// that is not zero shows, however small it is.
func (s Screen) Bar(width int, of uint64, parts ...Part) string {
	var b strings.Builder
	left := width
	for i, p := range parts {
		if p.Value == 0 || of == 0 {
			continue
		}
		n := int(float64(width)*float64(p.Value)/float64(of) + 0.5)
		n = min(max(n, 1), left-shown(parts[i+1:]))
		if n <= 0 {
			continue
		}
		left -= n
		b.WriteString(s.paint(p.Tone, strings.Repeat(string(p.Mark), n)))
	}
	return b.String()
}

// shown is how many parts need a column.
func shown(parts []Part) int {
	n := 0
	for _, p := range parts {
		if p.Value > 0 {
			n++
		}
	}
	return n
}

// Widths of a bar, in columns.
const (
	longestBar  = 40
	shortestBar = 5
)

// Bars writes a table with a bar at the end of each row, as long as there is room for;
// draw draws the bar of a row.
func (s Screen) Bars(columns []Column, rows [][]Cell, draw func(row, width int) string) error {
	widths := measure(columns, rows)
	s.fit(columns, widths)
	room := longestBar
	if s.Width != 0 {
		room = min(room, s.Width-total(widths)-gap)
	}
	if _, err := fmt.Fprintln(s.Out, s.row(columns, widths, s.head(columns))); err != nil {
		return err
	}
	for i, row := range rows {
		line := s.row(columns, widths, row)
		if room >= shortestBar {
			if bar := draw(i, room); bar != "" {
				line += strings.Repeat(" ", gap) + bar
			}
		}
		if _, err := fmt.Fprintln(s.Out, line); err != nil {
			return err
		}
	}
	return nil
}
