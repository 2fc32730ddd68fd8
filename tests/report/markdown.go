package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is the report. Folder contains the sections of the last runs.
const (
	File   = "tests/REPORT.md"
	Folder = ".local/report"
)

const preface = `# Report

` + "`make report`" + ` runs the tests in this folder and writes this file. Every run of the tests fails if its rows or verdicts differ.
`

func (s *Section) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n## %s\n\nWritten by `%s`.\n", begin(s.part.Name), s.part.Title, s.part.Folder)
	for _, t := range s.tables {
		columns := slices.Concat(t.fixed, t.measured)
		fmt.Fprintf(&b, "\n### %s\n\n", t.title)
		if t.intro != "" {
			fmt.Fprintf(&b, "%s\n\n", t.intro)
		}
		fmt.Fprintf(&b, "%s\n|%s\n", line(columns), strings.Repeat("---|", len(columns)))
		for _, r := range t.rows {
			cells := slices.Concat(r.fixed, r.measured)
			for len(cells) < len(columns) {
				cells = append(cells, "")
			}
			fmt.Fprintln(&b, line(cells))
		}
	}
	return b.String() + end(s.part.Name) + "\n"
}

func begin(name string) string { return "<!-- section " + name + " -->" }
func end(name string) string   { return "<!-- end of " + name + " -->" }

func line(cells []string) string {
	var b strings.Builder
	b.WriteString("|")
	for _, c := range cells {
		b.WriteString(" " + escape(c) + " |")
	}
	return b.String()
}

func escape(cell string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ").Replace(cell)
}

// compare returns an error if the section's rows differ from those of the report. In a partial
// run, rows may be missing.
func (s *Section) compare(report string, partial bool) error {
	section, ok := cut(report, s.part.Name)
	if !ok {
		return errors.New("section not found: run make report")
	}
	expected, ran := s.shape(section), s.shape(s.markdown())
	var wrong []string
	for row := range ran {
		if !expected[row] {
			wrong = append(wrong, "+ "+row)
		}
	}
	for row := range expected {
		if !ran[row] && !partial {
			wrong = append(wrong, "- "+row)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("rows differ: (+) not in the report, (-) not in this run; make report updates the report:\n%s", strings.Join(wrong, "\n"))
}

// shape returns the compared parts of a section: table headers and the fixed cells of rows, with
// the table's title.
func (s *Section) shape(section string) map[string]bool {
	rows := map[string]bool{}
	title, head := "", false
	for text := range strings.Lines(section) {
		text = strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(text, "### "):
			title, head = strings.TrimPrefix(text, "### "), true
		case strings.HasPrefix(text, "|---"), !strings.HasPrefix(text, "|"):
		case head:
			rows[title+" "+text] = true
			head = false
		default:
			rows[title+" "+line(s.fixed(title, cells(text)))] = true
		}
	}
	return rows
}

// fixed returns the compared cells of a row: all cells if the table is unknown.
func (s *Section) fixed(title string, row []string) []string {
	for _, t := range s.tables {
		if t.title == title {
			return row[:min(len(row), len(t.fixed))]
		}
	}
	return row
}

// cells is the inverse of [line].
func cells(line string) []string {
	inside := strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	var all []string
	for _, cell := range strings.Split(strings.ReplaceAll(inside, "\\|", "\x00"), "|") {
		all = append(all, strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"))
	}
	return all
}

func cut(report, name string) (string, bool) {
	_, rest, ok := strings.Cut(report, begin(name)+"\n")
	if !ok {
		return "", false
	}
	inside, _, ok := strings.Cut(rest, end(name))
	return inside, ok
}

// Merge rewrites the report. Each section comes from its last run, or else from the existing report.
func Merge(root string) error { return merge(root, Parts()) }

func merge(root string, parts []Part) error {
	existing, err := os.ReadFile(filepath.Join(root, File))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b strings.Builder
	b.WriteString(preface)
	for _, p := range parts {
		fresh, err := os.ReadFile(filepath.Join(root, Folder, p.Name+".md"))
		switch {
		case err == nil:
			b.WriteString("\n" + string(fresh))
			continue
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if old, ok := cut(string(existing), p.Name); ok {
			b.WriteString("\n" + begin(p.Name) + "\n" + old + end(p.Name) + "\n")
		}
	}
	return os.WriteFile(filepath.Join(root, File), []byte(b.String()), 0o644)
}
