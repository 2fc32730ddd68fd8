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
	t := s.Table("Rows", "Introduction.", []string{"name", "verdict"}, "took")
	for _, r := range rows {
		t.Row(r[:2], r[2:]...)
	}
	return s
}

func TestCompare(t *testing.T) {
	t.Parallel()
	a, b := []string{"a|b", "passed", "1 s"}, []string{"b", "passed", "2 s"}
	existing := section(a, b).markdown()
	tests := []struct {
		name string
		ran  *Section
		part bool
		want string // part of the error; "" for none
	}{
		{"the same", section(a, b), false, ""},
		{"in another order", section(b, a), false, ""},
		{"other figures", section([]string{"a|b", "passed", "9 s"}, b), false, ""},
		{"no figures", section([]string{"a|b", "passed"}, b), false, ""},
		{"another verdict", section([]string{"a|b", "FAILED", "1 s"}, b), false, "FAILED"},
		{"a missing row", section(a), false, "- Rows | b | passed |"},
		{"a missing row in a partial run", section(a), true, ""},
		{"an additional row", section(a, b, []string{"c", "passed", ""}), false, "+ Rows | c | passed |"},
		{"an additional row in a partial run", section(a, []string{"c", "passed", ""}), true, "+ Rows | c | passed |"},
		{"nothing", section(), false, "- Rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.ran.compare("before\n"+existing+"after\n", tt.part)
			if tt.want == "" {
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
	if err := section(a, b).compare("nothing\n", false); err == nil {
		t.Error("a report without the section: got no error")
	}
	other := section(a, b)
	other.Table("More", "", []string{"name"})
	if err := other.compare(existing, false); err == nil {
		t.Error("an unknown table: got no error")
	}
	if err := (&Section{part: other.part}).compare(existing, false); err == nil {
		t.Error("a missing table: got no error")
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	for _, row := range [][]string{{"a"}, {"a", "", "c"}, {"a|b", "`x || y`"}} {
		check.Equal(t, "cells", row, cells(line(row)))
	}
}

func TestSortRows(t *testing.T) {
	t.Parallel()
	row := []string{"a", "passed", "1 s"}
	if err := section(row, []string{"b", "passed"}).sortRows(); err != nil {
		t.Error(err)
	}
	if section(row, row).sortRows() == nil {
		t.Error("a duplicate row: got no error")
	}
	if section([]string{"a", "passed", "1 s", "more"}).sortRows() == nil {
		t.Error("an additional cell: got no error")
	}
	short := section()
	short.tables[0].Row([]string{"a"})
	if short.sortRows() == nil {
		t.Error("a missing cell: got no error")
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	s := &Section{}
	table := s.Tests("T", "", []string{"what"}, "seen")
	t.Run("good", func(t *testing.T) { table.Test(t, "one").Measured("3") })
	t.Run("skipped", func(t *testing.T) {
		table.Test(t, "two")
		t.Skip("skipped for the report")
	})
	var got [][]string
	for _, r := range table.rows {
		got = append(got, append(r.fixed, r.measured...))
	}
	want := [][]string{{"one", "`TestVerdicts/good`", "passed", "3"}, {"two", "`TestVerdicts/skipped`", "skipped"}}
	check.Equal(t, "rows", want, got)
}

// TestMerge checks that new sections replace existing ones, others remain, and unknown ones are
// removed.
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

func TestPartsAreWritten(t *testing.T) {
	t.Parallel()
	root, err := Root()
	check.OK(t, err)
	existing, err := os.ReadFile(filepath.Join(root, File))
	check.OK(t, err)
	for _, p := range Parts() {
		if _, ok := cut(string(existing), p.Name); !ok {
			t.Errorf("%s: no section %q: run make report", File, p.Name)
		}
		if !opens(t, filepath.Join(root, p.Folder), p.Name) {
			t.Errorf("%s: no test opens and closes the section %q", p.Folder, p.Name)
		}
	}
	if n := strings.Count(string(existing), "<!-- section "); n != len(Parts()) {
		t.Errorf("sections of %s: got %d, want %d", File, n, len(Parts()))
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
