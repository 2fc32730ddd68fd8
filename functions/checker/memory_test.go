package checker

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	none := math.Inf(1)
	for text, want := range map[string]float64{"1073741824\n": 1 << 30, "max\n": none, "9223372036854771712\n": none, "": none} {
		file := filepath.Join(t.TempDir(), "limit")
		check.OK(t, os.WriteFile(file, []byte(text), 0o600))
		if got := memoryLimit([]string{"/nowhere", file}); got != want {
			t.Errorf("limit of %q: got %v, want %v", text, got, want)
		}
	}
	if n := memoryInUse(); n < 1<<20 || n > 64<<30 {
		t.Errorf("memory in use: got %d bytes, want 1 MiB to 64 GiB", n)
	}
}

func TestGarbagePercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: maxPercent, 2 << 20: maxPercent, 32 << 20: 100, 64 << 20: 50, 1 << 30: minPercent} {
		if got := garbagePercent(live); got != want {
			t.Errorf("garbage percentage of %d bytes: got %d, want %d", live, got, want)
		}
	}
}
