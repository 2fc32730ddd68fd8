package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

const brokenOutput = `# example.com/app/broken [example.com/app/broken.test]
broken/broken_test.go:5:30: undefined: missing
`

func TestStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		record               string
		out                  string // printed, without the stacks of a panic
		pass, fail, skip     int
		packages             int
		failures, failedSubs string
	}{
		{record: "good", out: "ok       0.0 s  good\n", pass: 2, skip: 1, packages: 1},
		{record: "cached", out: "ok    (cached)  good\n", pass: 2, skip: 1, packages: 1},
		{record: "skips", out: "ok       0.0 s  only/skips\n", skip: 1, packages: 1},
		{record: "empty"},
		{
			record: "bad", pass: 1, fail: 2, packages: 1, failedSubs: "TestTable/two",
			out: `FAIL  bad TestPlain
    bad_test.go:16: got 3, want 4
--- FAIL: TestPlain (0.00s)
FAIL  bad TestTable
printed
    bad_test.go:13: got 1, want 2
--- FAIL: TestTable/two (0.00s)
--- FAIL: TestTable (0.00s)
FAIL     0.0 s  bad
`,
		},
		{
			record: "broken", fail: 1, packages: 1, failures: "broken (build failed)",
			out: brokenOutput + "FAIL     0.0 s  broken\n",
		},
		{
			record: "nothere", fail: 1, packages: 1, failures: "./nothere (build failed)",
			out: "# ./nothere\nstat /src/app/nothere: directory not found\nFAIL     0.0 s  ./nothere\n",
		},
		{
			record: "crash", pass: 1, fail: 1, packages: 1,
			out: "FAIL  crash TestCrash\n--- FAIL: TestCrash (0.00s)\npanic: assignment to entry in nil map [recovered, repanicked]\n\nFAIL     0.0 s  crash\n",
		},
		{
			record: "slow", pass: 1, fail: 1, packages: 1,
			out: "FAIL  slow TestStuck\npanic: test timed out after 1s\n\trunning tests:\n\t\tTestStuck (1s)\n\nFAIL     1.0 s  slow\n",
		},
		{
			record: "exits", pass: 1, fail: 1, packages: 1, failures: "exits (failed outside of its tests)",
			out: "cannot stop the server\nFAIL     0.0 s  exits\n",
		},
	} {
		t.Run(c.record, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			res := &result{}
			feed(t, newStream(res, "example.com/app", &out, &strings.Builder{}, false), c.record)
			if got := withoutStacks(out.String()); got != c.out {
				t.Errorf("got output\n%swant\n%s", got, c.out)
			}
			if res.count("pass") != c.pass || res.count("fail") != c.fail || res.count("skip") != c.skip || res.packages != c.packages {
				t.Errorf("got %+v", res)
			}
			if got := strings.Join(res.failures, " "); got != c.failures {
				t.Errorf("got failures %q, want %q", got, c.failures)
			}
			var subs []string
			for _, done := range res.tests {
				subs = append(subs, done.failed...)
				if done.cached != (c.record == "cached") {
					t.Errorf("%s: got cached %v", done.name, done.cached)
				}
			}
			if got := strings.Join(subs, " "); got != c.failedSubs {
				t.Errorf("got failed subtests %q, want %q", got, c.failedSubs)
			}
		})
	}
}

func feed(t *testing.T, s *stream, record string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", record+".jsonl"))
	check.OK(t, err)
	for len(text) > 0 {
		n, err := s.Write(text[:min(100, len(text))])
		check.OK(t, err)
		text = text[n:]
	}
	s.close()
}

// withoutStacks removes the stack traces of panics.
func withoutStacks(text string) string {
	var output strings.Builder
	stack := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "goroutine ") {
			stack = true
		} else if strings.HasPrefix(line, "FAIL ") {
			stack = false
		}
		if !stack {
			output.WriteString(line)
		}
	}
	return output.String()
}

func TestLogHasWholeOutput(t *testing.T) {
	t.Parallel()
	for _, verbose := range []bool{false, true} {
		var out, log strings.Builder
		s := newStream(&result{}, "example.com/app", &out, &log, verbose)
		if _, err := (*plain)(s).Write([]byte("go: downloading example.com/x v1.0.0\n")); err != nil {
			t.Fatal(err)
		}
		feed(t, s, "broken")
		feed(t, s, "good")
		want := "go: downloading example.com/x v1.0.0\n" + brokenOutput + "FAIL\texample.com/app/broken [build failed]\n" + `=== RUN   TestAdd
    good_test.go:8: adds
--- PASS: TestAdd (0.02s)
=== RUN   TestSub
=== RUN   TestSub/one
--- PASS: TestSub/one (0.00s)
=== RUN   TestSub/two
    good_test.go:12: not here
--- SKIP: TestSub/two (0.00s)
--- PASS: TestSub (0.00s)
=== RUN   TestNetwork
    good_test.go:15: no network
--- SKIP: TestNetwork (0.00s)
PASS
ok  	example.com/app/good	0.024s
`
		if log.String() != want {
			t.Errorf("verbose %v: got log\n%swant\n%s", verbose, log.String(), want)
		}
		if printed := strings.Contains(out.String(), "good_test.go:8: adds\n"); printed != verbose {
			t.Errorf("verbose %v: got printed %v", verbose, printed)
		}
	}
}

func TestStreamThatEndsEarly(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	res := &result{}
	s := newStream(res, "example.com/app", &out, &strings.Builder{}, false)
	text := `{"Action":"start","Package":"example.com/app/a"}
{"Action":"run","Package":"example.com/app/a","Test":"TestA"}
{"Action":"output","Package":"example.com/app/a","Test":"TestA","Output":"hello\n"}
`
	if _, err := s.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	s.close()
	if want := "FAIL  a TestA\nhello\nFAIL     0.0 s  a\n"; out.String() != want || res.count("fail") != 1 {
		t.Errorf("got %q and %d failed, want %q and 1", out.String(), res.count("fail"), want)
	}
}
