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
	Right bool // aligned, for numbers
	Whole bool // is not cut: an id or a number that people copy
	Tail  bool // is cut at its beginning: of an image the end tells more
	Rank  int  // 0 stays; of the others the highest is left out first
	Cap   int  // width that it keeps while others are left out; 0 is 16
}

// Cell is one value.
type Cell struct {
	Text string
	Tone Tone
}

// Plainly makes cells without a tone.
func Plainly(texts ...string) []Cell {
	cells := make([]Cell, 0, len(texts))
	for _, t := range texts {
		cells = append(cells, Cell{Text: t})
	}
	return cells
}

// gap parts two columns.
const gap = 2

// Table writes rows below a head. On a screen that is too narrow, what may be cut is
// cut so far that one long text does not push others out; then columns go by their
// rank, which the table says; then the widest are cut further, and whole ones only where
// nothing else is left.
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

// missing says that columns are hidden, and how to see them.
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

// measure is the width of each column.
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

// gone is the width of a column that is left out.
const gone = -1

// Widths that columns are cut to, in this order.
const (
	capped   = 16 // unless the column says otherwise, while others are left out
	readable = 8
	least    = 1
)

// keeps is the width that a column is cut to before others are left out for it.
func (c Column) keeps() int {
	switch {
	case c.Whole:
		return math.MaxInt
	case c.Cap > 0:
		return c.Cap
	}
	return capped
}

// fit narrows columns and leaves some out until they go on the screen, and tells how
// many it left out.
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
		copy(widths, natural) // what went has made room for those that were cut
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

// lastRanked is the column to leave out next, or -1.
func lastRanked(columns []Column, widths []int) int {
	last := -1
	for i, c := range columns {
		if widths[i] != gone && c.Rank > 0 && (last < 0 || c.Rank > columns[last].Rank) {
			last = i
		}
	}
	return last
}

// narrow takes from the widest of the columns, each down to its floor.
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

// row lays one row out, without space at its end.
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

// Meter writes a line with a bar between a name and a text, where there is room for it.
func (s Screen) Meter(name, text string, of uint64, parts ...Part) error {
	name, text = Clean(name)+":"+strings.Repeat(" ", gap), Clean(text)
	room := longestBar
	if s.Width != 0 {
		room = min(room, s.Width-Columns(name)-gap-Columns(text))
	}
	bar := ""
	if room >= shortestBar {
		bar = s.Bar(room, of, parts...)
	}
	if bar != "" {
		bar += strings.Repeat(" ", gap)
	}
	return s.Text(name + bar + text + "\n")
}
