package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func section(rows ...[]string) *Section {
	s := &Section{part: Part{Name: "x", Folder: "tests/x", Title: "X"}}
	t := s.Table("Rows", "What they are.", []string{"name", "verdict"}, "took")
	for _, r := range rows {
		t.Row(r[:2], r[2:]...)
	}
	return s
}

func TestCompare(t *testing.T) {
	t.Parallel()
	a, b := []string{"a|b", "held", "1 s"}, []string{"b", "held", "2 s"}
	kept := section(a, b).markdown()
	tests := []struct {
		name string
		ran  *Section
		part bool
		want string // part of the error; "" is none
	}{
		{"the same", section(a, b), false, ""},
		{"in another order", section(b, a), false, ""},
		{"other figures", section([]string{"a|b", "held", "9 s"}, b), false, ""},
		{"no figures", section([]string{"a|b", "held"}, b), false, ""},
		{"another verdict", section([]string{"a|b", "FAILED", "1 s"}, b), false, "FAILED"},
		{"a row less", section(a), false, "- Rows | b | held |"},
		{"a row less, of some tests", section(a), true, ""},
		{"a row more", section(a, b, []string{"c", "held", ""}), false, "+ Rows | c | held |"},
		{"a row more, of some tests", section(a, []string{"c", "held", ""}), true, "+ Rows | c | held |"},
		{"nothing", section(), false, "- Rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.ran.compare("before\n"+kept+"after\n", tt.part)
			if tt.want == "" {
				if err != nil {
					t.Errorf("it fails: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
		})
	}
	if err := section(a, b).compare("nothing\n", false); err == nil {
		t.Error("a report without the section is taken")
	}
	other := section(a, b)
	other.Table("More", "", []string{"name"})
	if err := other.compare(kept, false); err == nil {
		t.Error("a table that is not promised is taken")
	}
	if err := (&Section{part: other.part}).compare(kept, false); err == nil {
		t.Error("a promised table that is gone is not missed")
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	for _, row := range [][]string{{"a"}, {"a", "", "c"}, {"a|b", "`x || y`"}} {
		check.Equal(t, "there and back", row, cells(line(row)))
	}
}

func TestSound(t *testing.T) {
	t.Parallel()
	row := []string{"a", "held", "1 s"}
	if err := section(row, []string{"b", "held"}).sound(); err != nil {
		t.Error(err)
	}
	if section(row, row).sound() == nil {
		t.Error("a row stands twice")
	}
	if section([]string{"a", "held", "1 s", "more"}).sound() == nil {
		t.Error("a row has a cell too many")
	}
	short := section()
	short.tables[0].Row([]string{"a"})
	if short.sound() == nil {
		t.Error("a row has a cell too few")
	}
}

// TestVerdicts: a test's row tells how it ended.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	s := &Section{}
	table := s.Tests("T", "", []string{"what"}, "seen")
	t.Run("good", func(t *testing.T) { table.Test(t, "one").Measured("3") })
	t.Run("skipped", func(t *testing.T) {
		table.Test(t, "two")
		t.Skip("to see what the report says")
	})
	var got [][]string
	for _, r := range table.rows {
		got = append(got, append(r.fixed, r.measured...))
	}
	want := [][]string{{"one", "`TestVerdicts/good`", "held", "3"}, {"two", "`TestVerdicts/skipped`", "skipped"}}
	check.Equal(t, "rows", want, got)
}

// TestMerge: what ran replaces what stood, what did not run stays, and what is no
// part any more goes.
func TestMerge(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		check.OK(t, os.MkdirAll(filepath.Dir(path), 0o750))
		check.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	const first, second = "first", "second"
	write(File, "# Old\n\n"+begin(first)+"\nold\n"+end(first)+"\n\n"+begin(second)+"\nstays\n"+end(second)+"\n"+begin("gone")+"\n"+end("gone")+"\n")
	write(filepath.Join(Folder, first+".md"), begin(first)+"\nnew\n"+end(first)+"\n")
	check.OK(t, merge(root, []Part{{Name: first}, {Name: second}, {Name: "never ran"}}))
	got, err := os.ReadFile(filepath.Join(root, File))
	check.OK(t, err)
	want := preface + "\n" + begin(first) + "\nnew\n" + end(first) + "\n\n" + begin(second) + "\nstays\n" + end(second) + "\n"
	check.Equal(t, "report", want, string(got))
}

// TestPartsAreWritten: each part has its section, and its tests write it; the report
// has no other.
func TestPartsAreWritten(t *testing.T) {
	t.Parallel()
	root, err := Root()
	check.OK(t, err)
	kept, err := os.ReadFile(filepath.Join(root, File))
	check.OK(t, err)
	for _, p := range Parts() {
		if _, ok := cut(string(kept), p.Name); !ok {
			t.Errorf("%s has no section %q: run make report", File, p.Name)
		}
		if !opens(t, filepath.Join(root, p.Folder), p.Name) {
			t.Errorf("no test in %s opens and closes the section %q", p.Folder, p.Name)
		}
	}
	if n := strings.Count(string(kept), "<!-- section "); n != len(Parts()) {
		t.Errorf("%s has %d sections, want %d", File, n, len(Parts()))
	}
}

func opens(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	check.OK(t, err)
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		check.OK(t, err)
		all.Write(text)
	}
	return strings.Contains(all.String(), `report.Open("`+name+`")`) && strings.Contains(all.String(), ".Close(")
}
