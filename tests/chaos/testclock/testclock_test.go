package testclock

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

func TestShift(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, seconds := range []int64{0, 1, 3600, -1, -3600, 92 * 24 * 3600} {
		moved := Shift(now, seconds)
		if got := moved.Unix() - now.Unix(); got != seconds || moved.Nanosecond() != now.Nanosecond() {
			t.Errorf("step %d: wall clock moved by %d, want %d", seconds, got, seconds)
		}
		if d := moved.Sub(now); d != 0 {
			t.Errorf("step %d: monotonic clock moved by %v, want 0", seconds, d)
		}
		if d := moved.Round(0).Sub(now.Round(0)); d != time.Duration(seconds)*time.Second {
			t.Errorf("step %d: got %v without the monotonic reading, want %ds", seconds, d, seconds)
		}
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	dir := t.TempDir()
	file, err := Overlay(root, dir, "tests/chaos/testclock/testdata/clock")
	check.OK(t, err)
	bin := filepath.Join(dir, "clock")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", file, "-o", bin, "./tests/chaos/testclock/testdata/clock")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	clock := filepath.Join(dir, "step")
	step, err := Open(clock)
	check.OK(t, err)
	for _, seconds := range []int64{0, 3600, -3600} {
		step.Store(seconds)
		run := exec.CommandContext(t.Context(), bin)
		run.Env = append(os.Environ(), Variable+"="+clock)
		out, err := run.Output()
		check.OK(t, err)
		got, err := time.Parse(time.RFC3339, string(out))
		check.OK(t, err)
		if off := time.Until(got) - time.Duration(seconds)*time.Second; off.Abs() > time.Minute {
			t.Errorf("step %d: the program's clock differs by %v, want at most 1m", seconds, off)
		}
	}
}

func TestOverlayWithoutClockUse(t *testing.T) {
	t.Parallel()
	if _, err := Overlay(t.TempDir(), t.TempDir(), "."); err == nil {
		t.Error("Overlay without a use of the clock: got no error")
	}
}
