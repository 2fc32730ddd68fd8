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

// Where the report is, and where runs leave their sections, from the root.
const (
	File   = "tests/REPORT.md"
	Folder = ".local/report"
)

const preface = `# Report

What the tests in this folder promise and what they saw, written by them: ` + "`make report`" + ` runs them and writes this file. Every run compares
its rows and verdicts with these and fails when they differ; the measured columns are those of the run that was written down.
`

// markdown is the section as it stands in the report.
func (s *Section) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n## %s\n\nWritten by `%s`.\n", begin(s.part.Name), s.part.Title, s.part.Folder)
	for _, t := range s.tables {
		columns := slices.Concat(t.fixed, t.measured)
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n%s\n|%s\n", t.title, t.intro, line(columns), strings.Repeat("---|", len(columns)))
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

// escape keeps a cell in its place. It is its own reading: see [Section.compare].
func escape(cell string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ").Replace(cell)
}

// compare fails when the report promises other rows than those that there are. In a
// part of a run, rows may be missing.
func (s *Section) compare(kept string, part bool) error {
	section, ok := cut(kept, s.part.Name)
	if !ok {
		return errors.New("it has no such section: run make report")
	}
	promised, ran := s.shape(section), s.shape(s.markdown())
	var wrong []string
	for row := range ran {
		if !promised[row] {
			wrong = append(wrong, "+ "+row)
		}
	}
	for row := range promised {
		if !ran[row] && !part {
			wrong = append(wrong, "- "+row)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("rows that ran and are not promised (+), or are promised and did not run (-); make report writes it anew:\n%s", strings.Join(wrong, "\n"))
}

// shape is what a section promises: the head of each table, and of each row the
// table's title and the fixed cells.
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

// fixed are the cells of a row that are compared; all of a table that is unknown.
func (s *Section) fixed(title string, row []string) []string {
	for _, t := range s.tables {
		if t.title == title {
			return row[:min(len(row), len(t.fixed))]
		}
	}
	return row
}

// cells takes a table's line apart; [line] is its inverse.
func cells(line string) []string {
	inside := strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	var all []string
	for _, cell := range strings.Split(strings.ReplaceAll(inside, "\\|", "\x00"), "|") {
		all = append(all, strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"))
	}
	return all
}

// cut gives a section's text.
func cut(report, name string) (string, bool) {
	_, rest, ok := strings.Cut(report, begin(name)+"\n")
	if !ok {
		return "", false
	}
	inside, _, ok := strings.Cut(rest, end(name))
	return inside, ok
}

// Merge writes the report of a repository anew: the sections of [Parts] in their
// order, each as the last run left it, or as it stood where there was none.
func Merge(root string) error { return merge(root, Parts()) }

func merge(root string, parts []Part) error {
	kept, err := os.ReadFile(filepath.Join(root, File))
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
		if old, ok := cut(string(kept), p.Name); ok {
			b.WriteString("\n" + begin(p.Name) + "\n" + old + end(p.Name) + "\n")
		}
	}
	return os.WriteFile(filepath.Join(root, File), []byte(b.String()), 0o644)
}
