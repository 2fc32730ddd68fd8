// Package report keeps tests/REPORT.md true: the tables that test packages promise
// there (attacks, roles, faults, load) with the figures of the last run that was
// written down.
//
// A test package owns a section. It opens it, declares its tables, lets its tests
// put rows in, and closes it after the last test:
//
//	var (
//		book    = report.Open("attack")
//		attacks = book.Tests("Attacks", "What is tried, and what must come of it.",
//			[]string{"attack", "must"}, "seen")
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
// # What is compared
//
// Each run writes its section to .local/report/{section}.md. It fails when the
// section in tests/REPORT.md promises other rows than those that ran: a row that is
// missing, is new or has another verdict. Measured columns are those of the run that
// was written down last; they vary from run to run and are not compared. A run of
// some tests only (go test -run, -skip, -short, [Section.Reduce]) is compared in the rows
// that it ran, and writes nothing.
//
// With REPORT=update nothing is compared; "make report" runs all that way and then
// merges the sections into tests/REPORT.md ([Merge], the program in cmd). What needs a
// cluster is left as it stands: "REPORT=update make cluster-test",
// and then the program in cmd, write it.
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

// Part is a section of the report, and the folder of the tests that write it.
type Part struct{ Name, Folder, Title string }

// Parts are the sections of tests/REPORT.md, in its order. A package that wants a
// section adds it here.
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

// Section is one package's part of the report. Its methods may be called from
// parallel tests.
type Section struct {
	part Part

	mu      sync.Mutex
	tables  []*Table
	reduced bool
}

// Reduce declares that this run tries only some of the section's rows. The run is compared
// in the rows that it has, and writes nothing.
func (s *Section) Reduce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reduced = true
}

// Open begins a section; name is one of [Parts]. It panics for any other: the
// package's variables are no place to return an error to.
func Open(name string) *Section {
	for _, p := range Parts() {
		if p.Name == name {
			return &Section{part: p}
		}
	}
	panic("report: no part is called " + name)
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

// Row is one row of a table.
type Row struct {
	table    *Table
	fixed    []string
	measured []string
}

// Table declares a table whose rows are given whole, with [Table.Row].
func (s *Section) Table(title, intro string, fixed []string, measured ...string) *Table {
	t := &Table{section: s, title: title, intro: intro, fixed: fixed, measured: measured}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables = append(s.tables, t)
	return t
}

// Tests declares a table with a row for each test, made with [Table.Test]: after the
// fixed columns it has the test's name and its verdict.
func (s *Section) Tests(title, intro string, fixed []string, measured ...string) *Table {
	t := s.Table(title, intro, slices.Concat(fixed, []string{"test", "verdict"}), measured...)
	t.tests = true
	return t
}

// Row adds a row: its fixed cells, then the measured ones.
func (t *Table) Row(fixed []string, measured ...string) {
	t.add(&Row{table: t, fixed: fixed, measured: measured})
}

// Test adds the row of a test when that ends, with the verdict "held", "FAILED" or
// "skipped".
func (t *Table) Test(tb testing.TB, fixed ...string) *Row {
	tb.Helper()
	if !t.tests || len(fixed)+2 != len(t.fixed) {
		tb.Fatalf("table %q has the columns %q: the row %q does not fit", t.title, t.fixed, fixed)
	}
	r := &Row{table: t}
	tb.Cleanup(func() {
		r.fixed = append(slices.Clone(fixed), "`"+tb.Name()+"`", verdict(tb))
		t.add(r)
	})
	return r
}

// Measured sets the cells of the measured columns, before the test ends.
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
	return "held"
}

// Close writes and compares the section after the package's last test, and gives the
// exit status: code, or 1 when the report is not true.
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
	if err := s.sound(); err != nil {
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
	kept, err := os.ReadFile(filepath.Join(root, File))
	if err != nil {
		return err
	}
	return s.compare(string(kept), partial)
}

// someTests reports whether flags select only some of the package's tests.
func someTests() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return true
		}
	}
	return flag.Lookup("test.short") != nil && testing.Short()
}

// sound sorts the rows and finds those that no table can hold.
func (s *Section) sound() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		slices.SortFunc(t.rows, func(a, b *Row) int { return slices.Compare(a.fixed, b.fixed) })
		for i, r := range t.rows {
			if len(r.fixed) != len(t.fixed) || len(r.measured) > len(t.measured) {
				return fmt.Errorf("table %q has no place for the row %q, %q", t.title, r.fixed, r.measured)
			}
			if i > 0 && slices.Equal(r.fixed, t.rows[i-1].fixed) {
				return fmt.Errorf("table %q has the row %q twice", t.title, r.fixed)
			}
		}
	}
	return nil
}

// Root is the repository's folder: that of go.mod, above the working directory.
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
