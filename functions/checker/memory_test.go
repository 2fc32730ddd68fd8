package checker

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1073741824\n": 1 << 30, "max\n": 0, "9223372036854771712\n": 0, "": 0} {
		file := filepath.Join(t.TempDir(), "limit")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, ok := memoryLimit([]string{"/nowhere", file})
		if ok != (want != 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	if n := memoryInUse(); n < 1<<20 || n > 64<<30 {
		t.Errorf("%d bytes in use", n)
	}
}
