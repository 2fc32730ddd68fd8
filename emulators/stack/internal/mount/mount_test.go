package mount_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/emulators/stack/internal/mount"
	"github.com/sluicegate/sluice/tests/check"
)

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check.OK(t, err)
	got := map[string]string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		check.OK(t, err)
		got[e.Name()] = string(b)
	}
	return got
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	data := map[string][]byte{}
	for name, text := range files {
		data[name] = []byte(text)
	}
	check.OK(t, mount.Write(dir, data))
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "secret")
	tests := []struct {
		name  string
		files map[string]string
	}{
		{"first", map[string]string{"tls.crt": "1", "tls.key": "1"}},
		{"changed", map[string]string{"tls.crt": "2", "tls.key": "2"}},
		{"one more", map[string]string{"tls.crt": "2", "tls.key": "2", "ca.crt": "2"}},
		{"one less", map[string]string{"tls.crt": "2", "ca.crt": "2"}},
		{"empty", map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, dir, tt.files)
			check.Equal(t, "files", tt.files, read(t, dir))
			left, err := filepath.Glob(filepath.Join(dir, "..generation-*"))
			if err != nil || len(left) != 1 {
				t.Errorf("got %d generations, %v, want only the current one", len(left), err)
			}
		})
	}
}

func TestWriteOfTheSameChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{"a": "1"}
	write(t, dir, files)
	before, err := os.Readlink(filepath.Join(dir, "..data"))
	check.OK(t, err)
	write(t, dir, files)
	after, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil || before != after {
		t.Errorf("generation: got %q, %v, want %q", after, err, before)
	}
}

func TestWriteRejectsInvalidNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "..", "..data", "../x", "a/b"} {
		dir := t.TempDir()
		if err := mount.Write(dir, map[string][]byte{name: nil}); err == nil {
			t.Errorf("file name %q: got no error, want one", name)
		}
	}
}

// TestReadersSeeOneGeneration reads two files while they are replaced. A reader sees either two
// files of the same generation or that its generation was removed.
func TestReadersSeeOneGeneration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"crt": "0", "key": "0"})
	var pairs atomic.Int64
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			crt, key, err := pair(dir)
			switch {
			case errors.Is(err, os.ErrNotExist):
			case err != nil:
				t.Error(err)
				return
			case crt != key:
				t.Errorf("crt %q with key %q", crt, key)
			default:
				pairs.Add(1)
			}
		}
	})
	for i := 0; i < 200 || pairs.Load() == 0; i++ {
		text := strings.Repeat("x", i)
		write(t, dir, map[string]string{"crt": text, "key": text})
	}
	close(stop)
	reader.Wait()
}

func pair(dir string) (crt, key string, err error) {
	generation, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	if err != nil {
		return "", "", err
	}
	b, err := os.ReadFile(filepath.Join(generation, "crt"))
	if err != nil {
		return "", "", err
	}
	k, err := os.ReadFile(filepath.Join(generation, "key"))
	return string(b), string(k), err
}
