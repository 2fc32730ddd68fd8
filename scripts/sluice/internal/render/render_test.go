package render

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicegate/sluice/tests/check"
)

var (
	columnsOf = []Column{
		{Name: "KEY", Whole: true},
		{Name: "NAME"},
		{Name: "IMAGE", Tail: true},
		{Name: "N", Right: true, Whole: true},
		{Name: "WHEN", Rank: 1},
		{Name: "BY", Rank: 2},
	}
	rowsOf = func() [][]Cell {
		return [][]Cell{
			Plainly("key-ab12cd34", "Checkout team", "registry.example.com/hello:v2", "1000", "2026-03-14", "ada"),
			Plainly("key-zz99yy88", "支払いチーム", "", "7", "2026-03-13", "bob"),
		}
	}
)

func table(t *testing.T, width int) string {
	t.Helper()
	var b bytes.Buffer
	check.OK(t, (Screen{Out: &b, Width: width}).Table(columnsOf, rowsOf()))
	return b.String()
}

func TestTable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		width int
		want  string
	}{
		{"no limit", 0, `
KEY           NAME           IMAGE                             N  WHEN        BY
key-ab12cd34  Checkout team  registry.example.com/hello:v2  1000  2026-03-14  ada
key-zz99yy88  支払いチーム   -                                 7  2026-03-13  bob
`},
		{"long texts are cut to their cap", 68, `
KEY           NAME           IMAGE                N  WHEN        BY
key-ab12cd34  Checkout team  …le.com/hello:v2  1000  2026-03-14  ada
key-zz99yy88  支払いチーム   -                    7  2026-03-13  bob
`},
		{"the highest rank is hidden and leaves room for the others", 67, `
KEY           NAME           IMAGE                    N  WHEN
key-ab12cd34  Checkout team  …xample.com/hello:v2  1000  2026-03-14
key-zz99yy88  支払いチーム   -                        7  2026-03-13
1 column hidden: -o wide
`},
		{"other columns are cut further", 42, `
KEY           NAME        IMAGE          N
key-ab12cd34  Checkout …  …/hello:v2  1000
key-zz99yy88  支払いチ…   -              7
2 columns hidden: -o wide
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, "table", strings.TrimPrefix(tt.want, "\n"), table(t, tt.width))
		})
	}
}

func TestTableFits(t *testing.T) {
	t.Parallel()
	for width := 20; width < 100; width++ {
		for line := range strings.Lines(table(t, width)) {
			if n := Columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("line %q: got %d columns, want at most %d", line, n, width)
			}
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	bar := func(width int, of, a, b uint64) string {
		return Screen{}.Bar(width, of, Part{Value: a, Mark: '#'}, Part{Value: b, Mark: '.'})
	}
	tests := []struct {
		name string
		got  string
		want string
	}{
		{"nothing", bar(10, 100, 0, 0), ""},
		{"nothing of nothing", bar(10, 0, 0, 0), ""},
		{"all", bar(10, 100, 100, 0), "##########"},
		{"half", bar(10, 100, 50, 0), "#####"},
		{"both", bar(10, 100, 70, 30), "#######..."},
		{"a little shows", bar(10, 1000000, 999999, 1), "#########."},
		{"very little shows", bar(10, 1000000, 1, 1), "#."},
		{"the largest", bar(10, 1<<64-1, 1<<64-1, 0), "##########"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.got != tt.want {
				t.Errorf("got %q, want %q", tt.got, tt.want)
			}
		})
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		width int
		want  string
	}{
		{"no limit", 0, "Quota:  ##########..............................  500 of 2000\n"},
		{"a narrow screen", 30, "Quota:  ##.......  500 of 2000\n"},
		{"no room", 25, "Quota:  500 of 2000\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			err := (Screen{Out: &b, Width: tt.width}).Meter("Quota", "500 of 2000", 2000, Part{Value: 500, Mark: '#'}, Part{Value: 1500, Mark: '.'})
			if err != nil || b.String() != tt.want {
				t.Errorf("got %q, %v, want %q", b.String(), err, tt.want)
			}
		})
	}
}

func TestColour(t *testing.T) {
	t.Parallel()
	for _, colour := range []bool{false, true} {
		var b bytes.Buffer
		s := Screen{Out: &b, Colour: colour, Width: 20}
		err := s.Table([]Column{{Name: "STATUS"}}, [][]Cell{{{Text: "a very long status indeed", Tone: Bad}}})
		check.OK(t, err)
		if got := strings.Contains(b.String(), "\x1b[31ma very long status …\x1b[0m"); got != colour {
			t.Errorf("colors %v: got %q", colour, b.String())
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"plain", "Checkout team ✓", "Checkout team ✓"},
		{"escape", "a\x1b[31mb", "a\ufffd[31mb"},
		{"newline", "a\nb\tc", "a\ufffdb\ufffdc"},
		{"direction", "a\u202eb", "a\ufffdb"},
		{"no UTF-8", "a\xffb", "a\ufffdb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Clean(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add("registry.example.com/hello:v2", 8)
	f.Add("支払いチーム", 3)
	f.Add("e\u0301e\u0301", 1)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 1 || limit > 1000 || !utf8.ValidString(text) {
			return
		}
		for name, cut := range map[string]func(string, int) string{"Cut": Cut, "CutFront": CutFront} {
			got := cut(text, limit)
			if n := Columns(got); n > limit {
				t.Errorf("%s(%q, %d): got %q with %d columns", name, text, limit, got, n)
			}
			if Columns(text) <= limit && got != text {
				t.Errorf("%s(%q, %d): got %q, want the text", name, text, limit, got)
			}
		}
	})
}
