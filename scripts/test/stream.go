package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// event is a line of go test -json. See go doc test2json and go help buildjson.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	ImportPath  string  // of a build
	FailedBuild string  // the ImportPath of that build
}

// stream processes the output of go test -json.
type stream struct {
	result   *result
	module   string
	out, log io.Writer
	verbose  bool

	mu       sync.Mutex
	rest     []byte
	packages map[string]*running
	builds   map[string]*strings.Builder
}

type running struct {
	log    strings.Builder
	own    strings.Builder
	tests  map[string]*attempt
	cached bool
	failed bool
	count  int
}

type attempt struct {
	output []line
	passed map[string]bool // tests that passed or were skipped
	failed []string
}

type line struct{ test, text string }

func newStream(res *result, module string, out, log io.Writer, verbose bool) *stream {
	return &stream{
		result: res, module: module, out: out, log: log, verbose: verbose,
		packages: map[string]*running{}, builds: map[string]*strings.Builder{},
	}
}

type plain stream

func (p *plain) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	(*stream)(p).both(string(text))
	return len(text), nil
}

func (s *stream) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, text...)
	for {
		end := bytes.IndexByte(s.rest, '\n')
		if end < 0 {
			return len(text), nil
		}
		s.line(s.rest[:end+1])
		s.rest = s.rest[end+1:]
	}
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) > 0 {
		s.line(s.rest)
	}
	for _, name := range slices.Sorted(maps.Keys(s.packages)) {
		s.endPackage(event{Action: "fail", Package: name})
	}
}

func (s *stream) line(text []byte) {
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		s.both(string(text))
		return
	}
	switch {
	case e.Action == "build-output":
		if s.builds[e.ImportPath] == nil {
			s.builds[e.ImportPath] = &strings.Builder{}
		}
		s.builds[e.ImportPath].WriteString(e.Output)
		_, _ = io.WriteString(s.log, e.Output)
	case e.Package == "":
	case e.Action == "output":
		s.output(e)
	case e.Action == "run":
		s.attempt(e)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		if e.Test == "" {
			s.endPackage(e)
		} else {
			s.endTest(e)
		}
	}
}

func (s *stream) running(name string) *running {
	p := s.packages[name]
	if p == nil {
		p = &running{tests: map[string]*attempt{}}
		s.packages[name] = p
	}
	return p
}

func (s *stream) attempt(e event) *attempt {
	p, name := s.running(e.Package), topLevel(e.Test)
	if p.tests[name] == nil {
		p.tests[name] = &attempt{passed: map[string]bool{}}
	}
	return p.tests[name]
}

func topLevel(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

func (s *stream) output(e event) {
	p := s.running(e.Package)
	p.log.WriteString(e.Output)
	if s.verbose {
		s.print(e.Output)
	}
	switch {
	case e.Test != "":
		if !strings.HasPrefix(e.Output, "=== ") {
			t := s.attempt(e)
			t.output = append(t.output, line{e.Test, e.Output})
		}
	case strings.HasPrefix(e.Output, "ok  \t"):
		p.cached = strings.Contains(e.Output, "\t(cached)")
	case e.Output != "PASS\n" && e.Output != "FAIL\n" && !strings.HasPrefix(e.Output, "FAIL\t"):
		p.own.WriteString(e.Output)
	}
}

func (s *stream) endTest(e event) {
	p, t := s.running(e.Package), s.attempt(e)
	t.passed[e.Test] = e.Action != "fail"
	if name := topLevel(e.Test); name != e.Test {
		if e.Action == "fail" {
			t.failed = append(t.failed, e.Test)
		}
		return
	}
	delete(p.tests, e.Test)
	p.count++
	s.result.tests = append(s.result.tests, test{
		pkg: s.short(e.Package), name: e.Test, status: e.Action, seconds: e.Elapsed, failed: t.failed,
	})
	if e.Action == "fail" {
		p.failed = true
		s.printFailed(e, t)
	}
}

func (s *stream) printFailed(e event, t *attempt) {
	if s.verbose {
		return
	}
	s.print(fmt.Sprintf("FAIL  %s %s\n", s.short(e.Package), e.Test))
	for _, l := range t.output {
		if !t.passed[l.test] {
			s.print(l.text)
		}
	}
}

// endPackage prints a package's line, and counts its unfinished tests as failed.
func (s *stream) endPackage(e event) {
	p, name := s.running(e.Package), s.short(e.Package)
	if e.Action == "fail" {
		for _, test := range slices.Sorted(maps.Keys(p.tests)) {
			s.endTest(event{Action: "fail", Package: e.Package, Test: test})
		}
		s.endFailed(e, p, name)
	}
	delete(s.packages, e.Package)
	_, _ = io.WriteString(s.log, p.log.String())
	if e.Action == "skip" && p.count == 0 {
		return
	}
	s.result.packages++
	if p.cached {
		for i, t := range s.result.tests {
			s.result.tests[i].cached = t.cached || t.pkg == name
		}
	}
	word, took := "ok  ", fmt.Sprintf("%7.1f s", e.Elapsed)
	if e.Action == "fail" {
		word = "FAIL"
	}
	if p.cached {
		took = " (cached)"
	}
	s.print(fmt.Sprintf("%s %s  %s\n", word, took, name))
}

func (s *stream) endFailed(e event, p *running, name string) {
	build := s.builds[e.FailedBuild]
	if !p.failed {
		reason := "failed outside of its tests"
		if e.FailedBuild != "" {
			reason = "build failed"
		}
		s.result.failures = append(s.result.failures, fmt.Sprintf("%s (%s)", name, reason))
	}
	if build != nil {
		s.print(build.String())
	}
	if !s.verbose {
		s.print(p.own.String())
	}
}

func (s *stream) short(pkg string) string {
	if pkg == s.module {
		return "."
	}
	return strings.TrimPrefix(pkg, s.module+"/")
}

func (s *stream) print(text string) { _, _ = io.WriteString(s.out, text) }

func (s *stream) both(text string) {
	s.print(text)
	_, _ = io.WriteString(s.log, text)
}
