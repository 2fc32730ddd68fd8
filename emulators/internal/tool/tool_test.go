package tool

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

// module makes a repository with one pinned program in it.
func module(t *testing.T, source string) Program {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "tools")
	write(t, dir, "go.mod", "module example.test/tools\n\ngo 1.26\n")
	write(t, dir, "go.sum", "")
	write(t, dir, "main.go", source)
	return Program{Root: root, Module: "tools", Packages: []string{"example.test/tools"}, Name: "hello"}
}

const hello = "package main\n\nfunc main() { print(\"hello\") }\n"

func TestPathBuildsOnce(t *testing.T) {
	t.Parallel()
	p := module(t, hello)
	var said bytes.Buffer
	p.Progress = &said
	first, err := p.Path(t.Context())
	check.OK(t, err)
	out, err := exec.CommandContext(t.Context(), first).CombinedOutput()
	if err != nil || string(out) != "hello" {
		t.Errorf("it says %q, %v", out, err)
	}
	if !strings.Contains(said.String(), "built hello in ") {
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
	check.OK(t, err)
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
	check.OK(t, err)
	check.OK(t, os.WriteFile(filepath.Join(p.Root, p.Module, "go.sum"), []byte("\n"), 0o600))
	second, err := p.Path(t.Context())
	check.OK(t, err)
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

// published puts a module with a package "big" into a proxy of the test's own, and a
// program that uses it into the repository.
func published(t *testing.T) Program {
	t.Helper()
	proxy := t.TempDir()
	versions := filepath.Join(proxy, "example.test", "dep", "@v")
	check.OK(t, os.MkdirAll(versions, 0o750))
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for name, text := range map[string]string{
		"go.mod":        "module example.test/dep\n",
		"dep.go":        "package dep\n\nimport \"example.test/dep/big\"\n\nfunc Says() string { return \"dep and \" + big.Says() }\n",
		"big/big.go":    "package big\n\nimport \"example.test/dep/big/api\"\n\nfunc Says() string { return api.Says() }\n",
		"big/api/it.go": "package api\n\nfunc Says() string { return \"all of it\" }\n",
	} {
		w, err := archive.Create("example.test/dep@v1.0.0/" + name)
		check.OK(t, err)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	check.OK(t, archive.Close())
	write(t, versions, "v1.0.0.info", `{"Version":"v1.0.0"}`)
	write(t, versions, "v1.0.0.mod", "module example.test/dep\n")
	write(t, versions, "v1.0.0.zip", packed.String())
	t.Setenv("GOPROXY", "file://"+proxy)
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOFLAGS", "-modcacherw") // so that the test's folder can be removed
	t.Setenv("GOMODCACHE", t.TempDir())
	p := module(t, "package main\n\nimport \"example.test/dep\"\n\nfunc main() { print(dep.Says()) }\n")
	dir := filepath.Join(p.Root, p.Module)
	write(t, dir, "go.mod", "module example.test/tools\n\ngo 1.26\n\nrequire example.test/dep v1.0.0\n")
	tidy := exec.CommandContext(t.Context(), "go", "mod", "tidy")
	tidy.Dir = dir
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	check.OK(t, os.MkdirAll(dir, 0o750))
	check.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func TestStub(t *testing.T) {
	p := published(t)
	dir := filepath.Join(p.Root, p.Module)
	said := func() string {
		t.Helper()
		file, err := p.Path(t.Context())
		check.OK(t, err)
		out, err := exec.CommandContext(t.Context(), file).CombinedOutput()
		check.OK(t, err)
		return string(out)
	}
	if got := said(); got != "dep and all of it" {
		t.Errorf("without a stub it says %q", got)
	}

	p.Stubs = []string{"example.test/dep"}
	if file, err := p.Path(t.Context()); err == nil {
		t.Errorf("built %s without the stub's source", file)
	}
	stubs := filepath.Join(dir, "stubs", "example.test", "dep")
	write(t, filepath.Join(stubs, "big"), "stub.go", "package big\n\nfunc Says() string { return \"a stub\" }\n")
	// The rest of an interrupted build.
	write(t, filepath.Join(p.Root, ".local", "tools", "hello.src", "copies", "example.test", "dep"), "half.go", "package")
	if got := said(); got != "dep and a stub" {
		t.Errorf("got %q with a stub", got)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Root, ".local", "tools", "*.src")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	// Another stub makes another program, and go.sum is still verified.
	write(t, filepath.Join(stubs, "big"), "stub.go", "package big\n\nfunc Says() string { return \"another stub\" }\n")
	if got := said(); got != "dep and another stub" {
		t.Errorf("got %q with another stub", got)
	}
	write(t, stubs, "dep.go", "package dep\n\nfunc Says() string { return \"one file\" }\n")
	if got := said(); got != "one file" {
		t.Errorf("got %q with a stub for one file", got)
	}
	write(t, stubs, "new.go", "package dep\n")
	if file, err := p.Path(t.Context()); err == nil {
		t.Errorf("built %s with a stub that replaces nothing", file)
	}
	check.OK(t, os.Remove(filepath.Join(stubs, "new.go")))
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	check.OK(t, err)
	write(t, dir, "go.sum", strings.Replace(string(sums), "v1.0.0 h1:", "v1.0.0 h1:A", 1))
	if file, err := p.Path(t.Context()); err == nil {
		t.Errorf("built %s from a module that is not the one of go.sum", file)
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	root, err := Root(".")
	check.OK(t, err)
	if !exists(filepath.Join(root, "emulators", "internal", "tool", "tool.go")) {
		t.Errorf("Root = %s", root)
	}
	if root, err := Root(t.TempDir()); err == nil {
		t.Errorf("Root = %s outside the repository", root)
	}
}

func TestOneCommandBuildsSeveralPrograms(t *testing.T) {
	t.Parallel()
	p := module(t, hello)
	write(t, filepath.Join(p.Root, p.Module, "bye"), "main.go", "package main\n\nfunc main() { print(\"bye\") }\n")
	p.Packages = append(p.Packages, "./bye")
	dir, err := p.Path(t.Context())
	check.OK(t, err)
	for name, want := range map[string]string{"tools": "hello", "bye": "bye"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, name)).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%s: got %q, %v, want %q", name, out, err, want)
		}
	}
}

func TestStatusCountsPackages(t *testing.T) {
	t.Parallel()
	s := Program{Name: "hello"}.newStatus()
	s.total = 8
	if got, want := s.line(time.Minute), "building hello (first time only): 0 of 8 packages"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, text := range []string{"a\n", "b\nc", "\n"} {
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("got %d, %v for %q", n, err, text)
		}
	}
	if got, want := s.line(time.Minute), "building hello (first time only): 3 of 8 packages, about 1m40s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOptions: what the linker and the tags say is in the program, and a program of other
// options is another one.
func TestOptions(t *testing.T) {
	t.Parallel()
	p := module(t, "package main\n\nvar version = \"none\"\n\nfunc main() { print(version) }\n")
	plain, err := p.Path(t.Context())
	check.OK(t, err)
	p.Vars = []string{"main.version=v1.2.3"}
	stamped, err := p.Path(t.Context())
	check.OK(t, err)
	out, err := exec.CommandContext(t.Context(), stamped).CombinedOutput()
	if err != nil || string(out) != "v1.2.3" || stamped == plain {
		t.Errorf("%s says %q, %v; the plain one is %s", stamped, out, err, plain)
	}
}
