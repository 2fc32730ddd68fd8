package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

func TestSelected(t *testing.T) {
	t.Parallel()
	all := []part{{name: "unit"}, {name: "e2e"}, {name: "faults", longOnly: true}}
	for _, c := range []struct {
		names   []string
		long    bool
		want    string
		unknown string
	}{
		{want: "unit e2e"},
		{long: true, want: "unit e2e faults"},
		{names: []string{"faults", "unit"}, want: "unit faults"},
		{names: []string{"unit", "nothing"}, unknown: "nothing"},
	} {
		run, unknown := selected(all, c.names, c.long)
		var names []string
		for _, p := range run {
			names = append(names, p.name)
		}
		if got := strings.Join(names, " "); got != c.want || unknown != c.unknown {
			t.Errorf("%v: got %q and unknown %q, want %q and %q", c.names, got, unknown, c.want, c.unknown)
		}
	}
}

func module(t *testing.T, tests map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		check.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		check.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/app\n\ngo 1.26\n")
	for name, body := range tests {
		write(filepath.Join(name, "a_test.go"), "package "+name+"\n\n"+body)
	}
	return dir
}

const passing = "import \"testing\"\n\nfunc TestPasses(*testing.T) {}\n"

func TestFailedPartDoesNotStopTheNext(t *testing.T) {
	t.Parallel()
	dir := module(t, map[string]string{
		"good": passing, "last": passing, "left": "broken",
		"env": "import (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestLong(t *testing.T) {\n\tif os.Getenv(\"SLUICE_LONG\") != \"1\" {\n\t\tt.Skip()\n\t}\n}\n",
	})
	for _, long := range []bool{false, true} {
		var out strings.Builder
		r := runner{out: &out, dir: dir, logs: filepath.Join(t.TempDir(), "logs"), module: "example.com/app", long: long, now: time.Now}
		s := r.all(t.Context(), []part{
			{name: "first", packages: []string{"./good", "./..."}, except: []string{"./left", "./last"}, flags: []string{"-vet=off"}},
			{name: "wrong", packages: []string{"./absent"}},
			{name: "last", packages: []string{"./last"}},
		})
		passed := 2
		if long {
			passed = 3
		}
		if s.count("pass") != passed || s.count("fail") != 1 || s.ok() || s[1].failures[0] != "wrong (list packages: exit status 1)" {
			t.Errorf("long %v: got %d passed, %d failed, %+v\n%s", long, s.count("pass"), s.count("fail"), s[1], out.String())
		}
		if log, err := os.ReadFile(filepath.Join(r.logs, "last.log")); err != nil || !strings.Contains(string(log), "--- PASS: TestPasses") {
			t.Errorf("long %v: got log %q, %v", long, log, err)
		}
	}
}

type cancelAt struct {
	out    strings.Builder
	text   string
	cancel context.CancelFunc
}

func (c *cancelAt) Write(text []byte) (int, error) {
	if strings.Contains(string(text), c.text) {
		c.cancel()
	}
	return c.out.Write(text)
}

// TestInterruptEndsTests checks that the process ends, the test fails, and the next part does
// not run.
func TestInterruptEndsTests(t *testing.T) {
	t.Parallel()
	dir := module(t, map[string]string{
		"stuck": "import (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestStuck(*testing.T) {\n\tos.WriteFile(\"pid\", fmt.Append(nil, os.Getpid()), 0o600)\n\tfmt.Println(\"waits\")\n\tselect {}\n}\n",
		"good":  passing,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &cancelAt{text: "waits", cancel: cancel}
	r := runner{out: out, dir: dir, logs: t.TempDir(), module: "example.com/app", verbose: true, now: time.Now}
	s := r.all(ctx, []part{{name: "first", packages: []string{"./stuck"}}, {name: "next", packages: []string{"./good"}}})
	failures := slices.Concat(s[0].failures, s[1].failures)
	if want := "first (interrupted), next (not run)"; strings.Join(failures, ", ") != want || s[0].tests[0].status != "fail" || s.ok() {
		t.Errorf("got %q and %+v, want %q\n%s", failures, s[0], want, out.out.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "stuck", "pid"))
	check.OK(t, err)
	if _, err := os.Stat("/proc/" + string(text)); !os.IsNotExist(err) {
		t.Errorf("process %s runs: %v", text, err)
	}
}
