package main

import (
	"strings"
	"testing"
	"time"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		results summary
		verbose bool
		ok      bool
		want    string
	}{
		{
			name: "failed",
			results: summary{
				{
					part: "unit", wall: 192400 * time.Millisecond, packages: 3, failures: []string{"broken (build failed)"},
					tests: []test{
						{pkg: "good", name: "TestAdd", status: "pass", seconds: 1.25},
						{pkg: "good", name: "TestNetwork", status: "skip"},
						{pkg: "old", name: "TestOld", status: "pass", seconds: 99, cached: true},
						{pkg: "bad", name: "TestTable", status: "fail", seconds: 2, failed: []string{"TestTable/two"}},
					},
				},
				{
					part: "e2e", wall: 605 * time.Second, packages: 1,
					tests: []test{{pkg: "tests/chaos", name: "TestFaults", status: "pass", seconds: 122.08}},
				},
			},
			want: `
  part   time  packages  passed  failed  skipped
  unit  3m12s         3       2       2        1
   e2e  10m5s         1       1       0        0

failed:
  broken (build failed)
  bad TestTable
    TestTable/two

slowest tests:
    122.1 s  tests/chaos TestFaults
      2.0 s  bad TestTable
      1.2 s  good TestAdd

1 skipped; -v lists them

Top-level tests, without subtests:
3 passed, 2 failed, 1 skipped
`,
		},
		{
			name: "passed", verbose: true, ok: true,
			results: summary{{part: "unit", wall: time.Second, packages: 1, tests: []test{
				{pkg: "good", name: "TestAdd", status: "pass", seconds: 1},
				{pkg: "good", name: "TestNetwork", status: "skip"},
			}}},
			want: `
  part  time  packages  passed  failed  skipped
  unit    1s         1       1       0        1

slowest tests:
      1.0 s  good TestAdd

skipped:
  good TestNetwork

Top-level tests, without subtests:
1 passed, 0 failed, 1 skipped
`,
		},
		{
			name: "no test", results: summary{{part: "unit", packages: 1, tests: []test{{pkg: "good", name: "TestNetwork", status: "skip"}}}},
			want: `
  part  time  packages  passed  failed  skipped
  unit    0s         1       0       0        1

1 skipped; -v lists them

no test ran

Top-level tests, without subtests:
0 passed, 0 failed, 1 skipped
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			c.results.write(&out, c.verbose)
			if out.String() != c.want {
				t.Errorf("got\n%swant\n%s", out.String(), c.want)
			}
			if c.results.ok() != c.ok {
				t.Errorf("got ok %v, want %v", c.results.ok(), c.ok)
			}
		})
	}
}

func TestSlowestTestsAreTen(t *testing.T) {
	t.Parallel()
	r := &result{part: "unit"}
	for i := range 12 {
		r.tests = append(r.tests, test{pkg: "a", name: "Test", status: "pass", seconds: float64(i)})
	}
	var out strings.Builder
	summary{r}.write(&out, false)
	if n := strings.Count(out.String(), " s  a Test\n"); n != 10 || strings.Contains(out.String(), " 1.0 s") {
		t.Errorf("got %d tests:\n%s", n, out.String())
	}
}
