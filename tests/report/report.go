// Package report maintains tests/REPORT.md: the expected results of test packages, and the figures
// of the last recorded run.
//
// A test package opens a section, declares tables, adds rows, and closes the section:
//
//	var (
//		book    = report.Open("attack")
//		attacks = book.Tests("Attacks", "These tests attack a running installation.",
//			[]string{"attack", "expected"}, "measured")
//	)
//
//	func TestMain(m *testing.M) { os.Exit(book.Close(stacktest.Main(m, …))) }
//
//	func TestGuess(t *testing.T) {
//		row := attacks.Test(t, "guess a key", "401, always the same")
//		…
//		row.Measured(fmt.Sprintf("%d guesses", n))
//	}
//
// # Comparison
//
// Each run writes its section to .local/report/{section}.md. It fails if a row in tests/REPORT.md
// is missing, new or has another verdict. A run of some tests (go test -run, -skip, -short,
// [Section.Reduce]) compares only its own rows and writes nothing.
//
// With REPORT=update, nothing is compared. "make report" runs the tests that way and merges the
// sections ([Merge], the program in cmd). For the section of the cluster tests, run
// "REPORT=update make cluster-test" and then the program in cmd.
package report

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// Part is a section of the report and the folder of the tests that write it.
type Part struct{ Name, Folder, Title string }

// Parts returns the sections of tests/REPORT.md in their order.
func Parts() []Part {
	return []Part{
		{Name: "attack", Folder: "tests/attack", Title: "Attackers"},
		{Name: "roles", Folder: "tests/attack", Title: "Roles"},
		{Name: "faults", Folder: "tests/chaos", Title: "Faults"},
		{Name: "load", Folder: "tests/load", Title: "Load"},
		{Name: "replicas", Folder: "tests/replicas", Title: "Several checkers"},
		{Name: "cluster", Folder: "tests/cluster", Title: "On a real cluster"},
	}
}

// Section is a section of the report. Its methods are safe for concurrent use.
type Section struct {
	part Part

	mu      sync.Mutex
	tables  []*Table
	reduced bool
}

// Reduce marks the run as partial.
func (s *Section) Reduce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reduced = true
}

// Open starts the section with a name in [Parts]. It panics if there is none.
func Open(name string) *Section {
	for _, p := range Parts() {
		if p.Name == name {
			return &Section{part: p}
		}
	}
	panic("report: unknown part " + name)
}

// Table is a table of a section. Rows are sorted by their fixed cells.
type Table struct {
	section  *Section
	title    string
	intro    string
	tests    bool // has the columns "test" and "verdict"
	fixed    []string
	measured []string
	rows     []*Row
}

// Row is a row of a table.
type Row struct {
	table    *Table
	fixed    []string
	measured []string
}

// Table declares a table whose rows are added with [Table.Row].
func (s *Section) Table(title, intro string, fixed []string, measured ...string) *Table {
	t := &Table{section: s, title: title, intro: intro, fixed: fixed, measured: measured}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables = append(s.tables, t)
	return t
}

// Tests declares a table whose rows are added with [Table.Test]. It has the columns "test" and
// "verdict" after the fixed ones.
func (s *Section) Tests(title, intro string, fixed []string, measured ...string) *Table {
	t := s.Table(title, intro, slices.Concat(fixed, []string{"test", "verdict"}), measured...)
	t.tests = true
	return t
}

// Row adds a row.
func (t *Table) Row(fixed []string, measured ...string) {
	t.add(&Row{table: t, fixed: fixed, measured: measured})
}

// Test adds a row when the test ends, with the verdict "passed", "FAILED" or "skipped".
func (t *Table) Test(tb testing.TB, fixed ...string) *Row {
	tb.Helper()
	if !t.tests || len(fixed)+2 != len(t.fixed) {
		tb.Fatalf("table %q has the columns %q, which do not match the row %q", t.title, t.fixed, fixed)
	}
	r := &Row{table: t}
	tb.Cleanup(func() {
		r.fixed = append(slices.Clone(fixed), "`"+tb.Name()+"`", verdict(tb))
		t.add(r)
	})
	return r
}

// Measured sets the measured cells. It must be called before the test ends.
func (r *Row) Measured(cells ...string) {
	r.table.section.mu.Lock()
	defer r.table.section.mu.Unlock()
	r.measured = cells
}

func (t *Table) add(r *Row) {
	t.section.mu.Lock()
	defer t.section.mu.Unlock()
	t.rows = append(t.rows, r)
}

func verdict(tb testing.TB) string {
	tb.Helper()
	switch {
	case tb.Failed():
		return "FAILED"
	case tb.Skipped():
		return "skipped"
	}
	return "passed"
}

// Close writes and compares the section. It returns the exit status: code, or 1 if the report
// differs.
func (s *Section) Close(code int) int {
	if !flag.Parsed() {
		return cmp.Or(code, 1) // no test has run
	}
	if err := s.close(); err != nil {
		fmt.Fprintf(os.Stderr, "section %q of %s: %v\n", s.part.Name, File, err)
		return cmp.Or(code, 1)
	}
	return code
}

func (s *Section) close() error {
	root, err := Root()
	if err != nil {
		return err
	}
	if err := s.sortRows(); err != nil {
		return err
	}
	update := os.Getenv("REPORT") == "update"
	partial := s.reduced || someTests()
	if !partial {
		path := filepath.Join(root, Folder, s.part.Name+".md")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(s.markdown()), 0o644)); err != nil {
			return err
		}
	}
	if update {
		return nil
	}
	existing, err := os.ReadFile(filepath.Join(root, File))
	if err != nil {
		return err
	}
	return s.compare(string(existing), partial)
}

func someTests() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return true
		}
	}
	return flag.Lookup("test.short") != nil && testing.Short()
}

// sortRows sorts the rows. It returns an error if a row does not match its table or occurs twice.
func (s *Section) sortRows() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		slices.SortFunc(t.rows, func(a, b *Row) int { return slices.Compare(a.fixed, b.fixed) })
		for i, r := range t.rows {
			if len(r.fixed) != len(t.fixed) || len(r.measured) > len(t.measured) {
				return fmt.Errorf("table %q: the row %q, %q does not match the columns", t.title, r.fixed, r.measured)
			}
			if i > 0 && slices.Equal(r.fixed, t.rows[i-1].fixed) {
				return fmt.Errorf("table %q: duplicate row %q", t.title, r.fixed)
			}
		}
	}
	return nil
}

// Root returns the repository's root: the directory with go.mod above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = above
	}
	return "", err
}
