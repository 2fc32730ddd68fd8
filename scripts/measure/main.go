// Command measure prints how large the code is and what it is made of, so that a change
// that promises to make it smaller or plainer can show it.
//
//	measure [ROOT]    of a checkout, by default of the working directory
//
// Go is counted without tests, and manifests are the YAML below infra. Hidden folders are
// left out. What something is, is read from the syntax alone:
//
//   - imports: lines of import declarations.
//   - error returns: lines of "if … err != nil { return … }" that do nothing else.
//   - interfaces: of functions. The comment of one may say which type implements it.
//   - handlers: of the API, that is of functions but the console, by their two shapes:
//     (http.ResponseWriter, *http.Request) error and (ctx, scope, request) (response, error).
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

// Files below these lengths are told of.
const tiny, small = 40, 60

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "measure: %v\n", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	if len(args) > 1 {
		return errors.New("usage: measure [ROOT]")
	}
	root := "."
	if len(args) == 1 {
		root = args[0]
	}
	m, err := measure(os.DirFS(filepath.Clean(root)))
	if err != nil {
		return fmt.Errorf("read %s: %w", root, err)
	}
	if err := m.printRooms(w); err != nil {
		return err
	}
	return m.printTotals(w)
}

// printRooms writes a line for each room, below the top level's.
func (m *measures) printRooms(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(name string, s size) {
		_, _ = fmt.Fprintf(table, "%d\tlines\t%d\tfiles\t  %s\n", s.lines, s.files, name) // Flush gives the error
	}
	for _, top := range slices.Sorted(maps.Keys(m.rooms)) {
		rooms := m.rooms[top]
		line(top, total(rooms))
		for _, name := range slices.SortedFunc(maps.Keys(rooms), func(a, b string) int { return cmp.Compare(rooms[b].lines, rooms[a].lines) }) {
			if len(rooms) > 1 {
				line("  "+name, rooms[name])
			}
		}
	}
	return table.Flush()
}

func total(rooms map[string]size) (all size) {
	for _, s := range rooms {
		all.lines, all.files = all.lines+s.lines, all.files+s.files
	}
	return all
}

func (m *measures) printTotals(w io.Writer) error {
	slices.Sort(m.lengths)
	below := func(limit int) int {
		n, _ := slices.BinarySearch(m.lengths, limit)
		return n
	}
	_, err := fmt.Fprintf(w, `
%d lines in %d files: median %d, 90th percentile %d, %d files below %d, %d below %d
%d lines of imports, %d of error returns
%d interfaces in functions, of which %d say who implements them
%d handlers of the API, of %.1f lines on average
%d lines of manifests
`,
		sum(m.lengths), len(m.lengths), m.lengths[len(m.lengths)/2], m.lengths[len(m.lengths)*9/10], below(tiny), tiny, below(small), small,
		m.imports, m.errorReturns, m.interfaces, m.implemented,
		len(m.handlers), float64(sum(m.handlers))/float64(max(1, len(m.handlers))), m.manifests)
	return err
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}
