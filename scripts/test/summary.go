package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

const slowest = 10

type result struct {
	part     string
	wall     time.Duration
	packages int
	tests    []test
	failures []string // outside of tests
}

type test struct {
	pkg, name string
	status    string // pass, fail or skip
	seconds   float64
	cached    bool
	failed    []string
}

// count includes failures outside of tests.
func (r *result) count(status string) int {
	n := 0
	for _, t := range r.tests {
		if t.status == status {
			n++
		}
	}
	if status == "fail" {
		n += len(r.failures)
	}
	return n
}

type summary []*result

func (s summary) count(status string) int {
	n := 0
	for _, r := range s {
		n += r.count(status)
	}
	return n
}

// ok reports whether tests passed and nothing failed.
func (s summary) ok() bool { return s.count("fail") == 0 && s.count("pass") > 0 }

func (s summary) write(w io.Writer, verbose bool) {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	p("\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "part\ttime\tpackages\tpassed\tfailed\tskipped\t\n")
	for _, r := range s {
		_, _ = fmt.Fprintf(table, "%s\t%v\t%d\t%d\t%d\t%d\t\n", r.part, r.wall.Round(time.Second), r.packages, r.count("pass"), r.count("fail"), r.count("skip"))
	}
	_ = table.Flush()
	s.writeFailed(p)
	s.writeSlowest(p)
	if skipped := s.count("skip"); skipped > 0 && !verbose {
		p("\n%d skipped; -v lists them\n", skipped)
	} else if skipped > 0 {
		p("\nskipped:\n")
		s.each("skip", func(t test) { p("  %s %s\n", t.pkg, t.name) })
	}
	if s.count("pass")+s.count("fail") == 0 {
		p("\nno test ran\n")
	}
	p("\nTop-level tests, without subtests:\n")
	p("%d passed, %d failed, %d skipped\n", s.count("pass"), s.count("fail"), s.count("skip"))
}

func (s summary) each(status string, do func(test)) {
	for _, r := range s {
		for _, t := range r.tests {
			if t.status == status {
				do(t)
			}
		}
	}
}

func (s summary) writeFailed(p func(string, ...any)) {
	if s.count("fail") == 0 {
		return
	}
	p("\nfailed:\n")
	for _, r := range s {
		for _, failure := range r.failures {
			p("  %s\n", failure)
		}
	}
	s.each("fail", func(t test) {
		p("  %s %s\n", t.pkg, t.name)
		for _, name := range t.failed {
			p("    %s\n", name)
		}
	})
}

func (s summary) writeSlowest(p func(string, ...any)) {
	var all []test
	for _, r := range s {
		for _, t := range r.tests {
			if t.status != "skip" && !t.cached {
				all = append(all, t)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b test) int { return cmp.Compare(b.seconds, a.seconds) })
	p("\nslowest tests:\n")
	for _, t := range all[:min(slowest, len(all))] {
		p("%9.1f s  %s %s\n", t.seconds, t.pkg, t.name)
	}
}
