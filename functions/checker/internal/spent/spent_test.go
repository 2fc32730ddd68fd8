package spent

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
)

func term(i int) usage.QuotaPeriod {
	return usage.QuotaPeriodAt(apikey.Prefix(fmt.Sprintf("key%05d", i)), plan.Periods()[i%3], time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC))
}

func open(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(t.TempDir())
	check.OK(t, err)
	return d
}

func create(t *testing.T, d *Dir, run string) *File {
	t.Helper()
	f, err := d.Create(run)
	check.OK(t, err)
	return f
}

func end(t *testing.T, f *File) {
	t.Helper()
	check.OK(t, f.Close())
}

func ended(t *testing.T, d *Dir) *Ended {
	t.Helper()
	var all []*Ended
	// A process that another test forks shares the lock until it calls exec.
	check.Eventually(t, "read the file", time.Second, func() error {
		got, locked, err := d.Ended()
		if err == nil && (len(got) != 1 || locked != 0) {
			err = fmt.Errorf("got %d files, %d locked; want one", len(got), locked)
		}
		all = got
		return err
	})
	slices.SortFunc(all[0].Spent, func(a, b usage.Ended) int { return cmp.Compare(a.Prefix, b.Prefix) })
	return all[0]
}

func TestRecord(t *testing.T) {
	t.Parallel()
	d := open(t)
	f := create(t, d, "RUN1")
	var want []usage.Ended
	for i := range 3 * slotsPerChunk {
		r, ok := f.Add(term(i), int64(i))
		if !ok {
			t.Fatalf("no room for term %d", i)
		}
		if i%2 == 0 {
			f.Remove(r)
			continue
		}
		r.Spent.Add(5)
		want = append(want, usage.Ended{QuotaPeriod: term(i), Process: "RUN1", Spent: int64(i) + 5})
	}
	if len(f.chunks) != 2 {
		t.Errorf("chunks: got %d, want 2", len(f.chunks))
	}
	end(t, f)
	e := ended(t, d)
	if !slices.Equal(e.Spent, want) || e.Run != "RUN1" || e.Damaged != 0 {
		t.Errorf("got %d records of %s, %d damaged, want %d", len(e.Spent), e.Run, e.Damaged, len(want))
	}
	if err := e.Discard(); err != nil {
		t.Error(err)
	}
	if all, _, err := d.Ended(); len(all) != 0 || err != nil {
		t.Errorf("files: got %d, %v, want none", len(all), err)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	d := open(t)
	f := create(t, d, "RUN0")
	for i := range maxChunks*slotsPerChunk - headerSlots {
		if _, ok := f.Add(term(i%90_000), 0); !ok {
			t.Fatalf("no room for term %d", i)
		}
	}
	if _, ok := f.Add(term(1), 0); ok {
		t.Error("Add succeeded in a full file")
	}
	size, err := os.Stat(f.name)
	if err != nil || size.Size() != maxChunks*chunkSize {
		t.Errorf("size: got %d bytes, %v", size.Size(), err)
	}
	for i := 1; i < maxFiles; i++ {
		defer end(t, create(t, d, fmt.Sprint("RUN", i)))
	}
	if _, err := d.Create("RUNX"); err == nil {
		t.Error("too many files were created")
	}
	end(t, f)
	if all, locked, err := d.Ended(); len(all) != 1 || locked != maxFiles-1 || err != nil {
		t.Errorf("got %d files, %d locked, %v; want 1 and the others locked", len(all), locked, err)
	}
	empty := open(t)
	end(t, create(t, empty, "RUN0"))
	if all, _, err := empty.Ended(); len(all) != 0 || err != nil {
		t.Errorf("files without records: got %d, %v, want none", len(all), err)
	}
	if names, err := empty.names(); len(names) != 0 || err != nil {
		t.Errorf("files: got %v, %v, want none", names, err)
	}
}

func TestDamagedRecordsAreDiscarded(t *testing.T) {
	t.Parallel()
	second := (headerSlots + 1) * slotSize
	for _, test := range []struct {
		name   string
		change func(text []byte) []byte
		other  bool
		want   int
	}{
		{name: "intact", change: func(b []byte) []byte { return b }, want: 3},
		{name: "another boot", change: func(b []byte) []byte { return b }, other: true},
		{name: "empty", change: func([]byte) []byte { return nil }},
		{name: "header cut", change: func(b []byte) []byte { return b[:headerSize-1] }},
		{name: "zeros", change: func(b []byte) []byte { return make([]byte, len(b)) }},
		{name: "header damaged", change: func(b []byte) []byte { b[9] ^= 1; return b }},
		{name: "prefix damaged", change: func(b []byte) []byte { b[second] ^= 1; return b }, want: 2},
		{name: "day damaged", change: func(b []byte) []byte { b[second+8] ^= 1; return b }, want: 2},
		{name: "negative", change: func(b []byte) []byte { b[second+23] = 0xff; return b }, want: 2},
		{name: "repeated", change: func(b []byte) []byte { copy(b[second:], b[second+slotSize:second+2*slotSize]); return b }, want: 1},
		{name: "garbage at the end", change: func(b []byte) []byte { return append(b, "garbage, but longer than one slot"...) }, want: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			f := create(t, d, "RUN1")
			for i := range 3 {
				f.Add(term(i), 7)
			}
			end(t, f)
			text, err := os.ReadFile(f.name)
			check.OK(t, err)
			check.OK(t, os.WriteFile(f.name, test.change(text), 0o600))
			if test.other {
				d.boot = "another"
			}
			all, locked, err := d.Ended()
			got := 0
			for _, e := range all {
				got += len(e.Spent)
			}
			if got != test.want || locked != 0 || (err == nil) != (test.want > 0) {
				t.Errorf("got %d records, %d locked, %v; want %d", got, locked, err, test.want)
			}
		})
	}
}

// helper is the variable with the directory for the process that TestRecordsSurviveKill kills.
const helper = "SPENT_HELPER"

func TestRecordsSurviveKill(t *testing.T) {
	if dir := os.Getenv(helper); dir != "" {
		spend(t, dir)
	}
	t.Parallel()
	d := open(t)
	self, err := os.Executable()
	check.OK(t, err)
	run := exec.CommandContext(t.Context(), self, "-test.run=^TestRecordsSurviveKill$")
	run.Env = append(os.Environ(), helper+"="+d.path)
	out, err := run.StdoutPipe()
	check.OK(t, err)
	check.OK(t, run.Start())
	said, err := bufio.NewReader(out).ReadString('\n')
	check.OK(t, err)
	if all, locked, err := d.Ended(); len(all) != 0 || locked != 1 || err != nil {
		t.Errorf("while it runs: got %d files, %d locked, %v, want 0 and 1", len(all), locked, err)
	}
	check.OK(t, run.Process.Kill())
	_ = run.Wait() // fails because the process was killed
	e := ended(t, d)
	if want := []usage.Ended{{QuotaPeriod: term(0), Process: "RUN1", Spent: 42}}; said != "42\n" || !slices.Equal(e.Spent, want) {
		t.Errorf("got %v, want %v", e.Spent, want)
	}
	if _, err := os.Stat(filepath.Join(d.path, "RUN1"+suffix)); err != nil {
		t.Error(err)
	}
}

func spend(t *testing.T, dir string) {
	t.Helper()
	d, err := Open(dir)
	check.OK(t, err)
	r, _ := create(t, d, "RUN1").Add(term(0), 40)
	r.Spent.Add(2)
	fmt.Fprintln(os.Stdout, r.Spent.Load())
	select {}
}

func TestNoAllocation(t *testing.T) {
	d := open(t)
	f := create(t, d, "RUN1")
	defer end(t, f)
	r, _ := f.Add(term(0), 0)
	if n := testing.AllocsPerRun(100, func() { r.Spent.Add(1) }); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}
