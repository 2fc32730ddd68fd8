package tool

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// module makes a repository with one pinned program in it.
func module(t *testing.T, source string) Program {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "tools")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":  "module example.test/tools\n\ngo 1.26\n",
		"go.sum":  "",
		"main.go": source,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Program{Root: root, Module: "tools", Package: "example.test/tools", Name: "hello"}
}

const hello = "package main\n\nfunc main() { print(\"hello\") }\n"

func TestPathBuildsOnce(t *testing.T) {
	t.Parallel()
	p := module(t, hello)
	var said bytes.Buffer
	p.Progress = &said
	first, err := p.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), first).CombinedOutput()
	if err != nil || string(out) != "hello" {
		t.Errorf("it says %q, %v", out, err)
	}
	if !strings.Contains(said.String(), "building hello (first time only") {
		t.Errorf("progress was %q", said.String())
	}
	said.Reset()
	second, err := p.Path(t.Context())
	if err != nil || second != first || said.Len() != 0 {
		t.Errorf("again: %q, %v, progress %q", second, err, said.String())
	}
}

// The root may be given as it is seen from the working folder; go build runs in
// another one.
func TestRelativeRoot(t *testing.T) {
	p := module(t, hello)
	t.Chdir(p.Root)
	p.Root = "."
	file, err := p.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(file) || !exists(file) {
		t.Errorf("built %s", file)
	}
}

func TestPathOfTwoAtOnce(t *testing.T) {
	t.Parallel()
	p := module(t, hello)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := p.Path(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestNewPinReplacesOldProgram(t *testing.T) {
	t.Parallel()
	p := module(t, hello)
	first, err := p.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.Root, p.Module, "go.sum"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := p.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first == second || exists(first) || !exists(second) {
		t.Errorf("%s and then %s: the old one must make room for the new one", first, second)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	p := module(t, "package main\n\nfunc main() { broken }\n")
	file, err := p.Path(t.Context())
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("Path = %q, %v; want the compiler's words", file, err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Root, ".local", "tools", "hello-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	root, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(root, "emulators", "internal", "tool", "tool.go")) {
		t.Errorf("Root = %s", root)
	}
	if root, err := Root(t.TempDir()); err == nil {
		t.Errorf("Root = %s outside the repository", root)
	}
}
