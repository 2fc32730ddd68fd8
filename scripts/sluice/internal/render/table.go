package render

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Column is a column of a table.
type Column struct {
	Name  string
	Right bool // right-aligned, for numbers
	Whole bool // not cut, for IDs and numbers
	Tail  bool // cut at the beginning, for images
	Rank  int  // columns with the highest rank are hidden first; 0 is never hidden
	Cap   int  // width to which the column is cut before others are hidden; 0 is 16
}

// Cell is one value.
type Cell struct {
	Text string
	Tone Tone
}

// Plainly returns cells without a tone.
func Plainly(texts ...string) []Cell {
	cells := make([]Cell, 0, len(texts))
	for _, t := range texts {
		cells = append(cells, Cell{Text: t})
	}
	return cells
}

const gap = 2

// Table writes a head and rows. To fit a narrow screen, it takes these steps in order, as far as
// necessary:
//
//  1. It cuts columns to their cap.
//  2. It hides columns by rank, and writes the number of hidden columns below the table.
//  3. It cuts the widest columns further; whole columns last.
func (s Screen) Table(columns []Column, rows [][]Cell) error {
	widths := measure(columns, rows)
	hidden := s.fit(columns, widths)
	for _, row := range append([][]Cell{s.head(columns)}, rows...) {
		if _, err := fmt.Fprintln(s.Out, s.row(columns, widths, row)); err != nil {
			return err
		}
	}
	return s.missing(hidden)
}

func (s Screen) missing(columns int) error {
	text := ""
	switch columns {
	case 0:
		return nil
	case 1:
		text = "1 column"
	default:
		text = fmt.Sprintf("%d columns", columns)
	}
	return s.Text(s.paint(Faint, Cut(text+" hidden: -o "+string(Wide), s.Width)) + "\n")
}

func (s Screen) head(columns []Column) []Cell {
	head := make([]Cell, 0, len(columns))
	for _, c := range columns {
		head = append(head, Cell{Text: c.Name, Tone: Faint})
	}
	return head
}

func measure(columns []Column, rows [][]Cell) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = Columns(c.Name)
	}
	for _, row := range rows {
		for i := range row {
			row[i].Text = Clean(row[i].Text)
			if row[i].Text == "" {
				row[i].Text = none
			}
			widths[i] = max(widths[i], Columns(row[i].Text))
		}
	}
	return widths
}

const gone = -1

// Widths that columns are cut to, in this order.
const (
	capped   = 16 // default of Column.Cap
	readable = 8
	least    = 1
)

// keeps returns the width to which a column is cut before others are hidden.
func (c Column) keeps() int {
	switch {
	case c.Whole:
		return math.MaxInt
	case c.Cap > 0:
		return c.Cap
	}
	return capped
}

// fit cuts and hides columns until they fit on the screen. It returns the number of hidden columns.
func (s Screen) fit(columns []Column, widths []int) (hidden int) {
	if s.Width == 0 {
		return 0
	}
	natural := slices.Clone(widths)
	s.narrow(widths, func(i int) int { return columns[i].keeps() })
	for total(widths) > s.Width {
		last := lastRanked(columns, natural)
		if last < 0 {
			break
		}
		natural[last] = gone
		hidden++
		copy(widths, natural) // the hidden column leaves room for the others
		s.narrow(widths, func(i int) int { return columns[i].keeps() })
	}
	for _, width := range []int{readable, least} {
		s.narrow(widths, func(i int) int {
			if columns[i].Whole {
				return math.MaxInt
			}
			return width
		})
	}
	s.narrow(widths, func(int) int { return least })
	return hidden
}

func lastRanked(columns []Column, widths []int) int {
	last := -1
	for i, c := range columns {
		if widths[i] != gone && c.Rank > 0 && (last < 0 || c.Rank > columns[last].Rank) {
			last = i
		}
	}
	return last
}

func (s Screen) narrow(widths []int, floor func(int) int) {
	for total(widths) > s.Width {
		widest := -1
		for i, w := range widths {
			if w > floor(i) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func total(widths []int) int {
	sum := -gap
	for _, w := range widths {
		if w != gone {
			sum += w + gap
		}
	}
	return sum
}

func (s Screen) row(columns []Column, widths []int, cells []Cell) string {
	var b strings.Builder
	space := ""
	for i, c := range cells {
		if widths[i] == gone {
			continue
		}
		text := c.Text
		if columns[i].Tail {
			text = CutFront(text, widths[i])
		} else {
			text = Cut(text, widths[i])
		}
		fill := strings.Repeat(" ", widths[i]-Columns(text))
		b.WriteString(space)
		if columns[i].Right {
			b.WriteString(fill)
			fill = ""
		}
		b.WriteString(s.paint(c.Tone, text))
		space = fill + strings.Repeat(" ", gap)
	}
	return b.String()
}

// Part is one part of a bar.
type Part struct {
	Value uint64
	Mark  rune // one column wide, e.g. '█'
	Tone  Tone
}

// Bar draws the parts one after another. width columns stand for the value full. Every part that is
// not zero has at least one column.
func (s Screen) Bar(width int, full uint64, parts ...Part) string {
	var b strings.Builder
	left := width
	for i, p := range parts {
		if p.Value == 0 || full == 0 {
			continue
		}
		n := int(float64(width)*float64(p.Value)/float64(full) + 0.5)
		n = min(max(n, 1), left-shown(parts[i+1:]))
		if n <= 0 {
			continue
		}
		left -= n
		b.WriteString(s.paint(p.Tone, strings.Repeat(string(p.Mark), n)))
	}
	return b.String()
}

func shown(parts []Part) int {
	n := 0
	for _, p := range parts {
		if p.Value > 0 {
			n++
		}
	}
	return n
}

const (
	longestBar  = 40
	shortestBar = 5
)

// Bars writes a table with a bar at the end of each row if there is room. draw returns the bar of a
// row.
func (s Screen) Bars(columns []Column, rows [][]Cell, draw func(row, width int) string) error {
	widths := measure(columns, rows)
	hidden := s.fit(columns, widths)
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
	return s.missing(hidden)
}

// Meter writes a line with a name, a bar if there is room, and a text.
func (s Screen) Meter(name, text string, full uint64, parts ...Part) error {
	name, text = Clean(name)+":"+strings.Repeat(" ", gap), Clean(text)
	room := longestBar
	if s.Width != 0 {
		room = min(room, s.Width-Columns(name)-gap-Columns(text))
	}
	bar := ""
	if room >= shortestBar {
		bar = s.Bar(room, full, parts...)
	}
	if bar != "" {
		bar += strings.Repeat(" ", gap)
	}
	return s.Text(name + bar + text + "\n")
}
