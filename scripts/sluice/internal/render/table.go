package render

import (
	"fmt"
	"strings"
)

// Column is a column of a table.
type Column struct {
	Name  string
	Right bool // aligned, for numbers
	Whole bool // is not cut: an id or a number that people copy
	Extra bool // is left out first when the table does not fit
	Tail  bool // is cut at its beginning: of an image the end tells more
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

// Table writes rows below a head. On a screen that is too narrow, columns marked
// Extra go first, the last of them before the others; then the widest that may be cut
// are; and whole ones only where nothing else is left.
func (s Screen) Table(columns []Column, rows [][]Cell) error {
	widths := measure(columns, rows)
	s.fit(columns, widths)
	for _, row := range append([][]Cell{s.head(columns)}, rows...) {
		if _, err := fmt.Fprintln(s.Out, s.row(columns, widths, row)); err != nil {
			return err
		}
	}
	return nil
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

// fit narrows columns until they go on the screen.
func (s Screen) fit(columns []Column, widths []int) {
	if s.Width == 0 {
		return
	}
	for i := len(columns) - 1; i >= 0 && total(widths) > s.Width; i-- {
		if columns[i].Extra {
			widths[i] = gone
		}
	}
	const readable, least = 8, 1
	cuttable := func(i int) bool { return !columns[i].Whole }
	s.narrow(widths, readable, cuttable)
	s.narrow(widths, least, cuttable)
	s.narrow(widths, least, func(int) bool { return true })
}

// narrow takes from the widest of the columns that may give, down to a least width.
func (s Screen) narrow(widths []int, least int, may func(int) bool) {
	for total(widths) > s.Width {
		widest := -1
		for i, w := range widths {
			if may(i) && w > least && (widest < 0 || w > widths[widest]) {
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
