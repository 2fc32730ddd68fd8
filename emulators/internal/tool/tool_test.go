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
	var output bytes.Buffer
	p.Progress = &output
	first, err := p.Path(t.Context())
	check.OK(t, err)
	out, err := exec.CommandContext(t.Context(), first).CombinedOutput()
	if err != nil || string(out) != "hello" {
		t.Errorf("got output %q, %v, want \"hello\"", out, err)
	}
	if !strings.Contains(output.String(), "built hello in ") {
		t.Errorf("got progress %q, want \"built hello in …\"", output.String())
	}
	output.Reset()
	second, err := p.Path(t.Context())
	if err != nil || second != first || output.Len() != 0 {
		t.Errorf("second call: got %q, %v, progress %q, want the same file without progress", second, err, output.String())
	}
}

// TestRelativeRoot checks that Root can be relative, although go build runs in another folder.
func TestRelativeRoot(t *testing.T) {
	p := module(t, hello)
	t.Chdir(p.Root)
	p.Root = "."
	file, err := p.Path(t.Context())
	check.OK(t, err)
	if !filepath.IsAbs(file) || !exists(file) {
		t.Errorf("got file %s, want an absolute path of an existing file", file)
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
		t.Errorf("got %s, then %s, want the first removed and the second built", first, second)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	p := module(t, "package main\n\nfunc main() { broken }\n")
	file, err := p.Path(t.Context())
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %q, %v, want the compiler's error", file, err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Root, ".local", "tools", "hello-*")); len(left) != 0 {
		t.Errorf("got remaining files %v, want none", left)
	}
}

// published publishes a module in a proxy of the test, and creates a repository with a program
// that uses it.
func published(t *testing.T) Program {
	t.Helper()
	proxy := t.TempDir()
	versions := filepath.Join(proxy, "example.test", "dep", "@v")
	check.OK(t, os.MkdirAll(versions, 0o750))
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for name, text := range map[string]string{
		"go.mod":        "module example.test/dep\n",
		"dep.go":        "package dep\n\nimport \"example.test/dep/big\"\n\nfunc Text() string { return \"dep and \" + big.Text() }\n",
		"big/big.go":    "package big\n\nimport \"example.test/dep/big/api\"\n\nfunc Text() string { return api.Text() }\n",
		"big/api/it.go": "package api\n\nfunc Text() string { return \"all of it\" }\n",
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
	t.Setenv("GOFLAGS", "-modcacherw") // for the removal of the folder
	t.Setenv("GOMODCACHE", t.TempDir())
	p := module(t, "package main\n\nimport \"example.test/dep\"\n\nfunc main() { print(dep.Text()) }\n")
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
	output := func() string {
		t.Helper()
		file, err := p.Path(t.Context())
		check.OK(t, err)
		out, err := exec.CommandContext(t.Context(), file).CombinedOutput()
		check.OK(t, err)
		return string(out)
	}
	if got := output(); got != "dep and all of it" {
		t.Errorf("without a stub: got %q", got)
	}

	p.Stubs = []string{"example.test/dep"}
	if file, err := p.Path(t.Context()); err == nil {
		t.Errorf("built %s without the stub's source", file)
	}
	stubs := filepath.Join(dir, "stubs", "example.test", "dep")
	write(t, filepath.Join(stubs, "big"), "stub.go", "package big\n\nfunc Text() string { return \"a stub\" }\n")
	// Files of an interrupted build.
	write(t, filepath.Join(p.Root, ".local", "tools", "hello.src", "copies", "example.test", "dep"), "half.go", "package")
	if got := output(); got != "dep and a stub" {
		t.Errorf("with a stub: got %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Root, ".local", "tools", "*.src")); len(left) != 0 {
		t.Errorf("got remaining files %v, want none", left)
	}

	// Another stub results in another program, and go.sum is still verified.
	write(t, filepath.Join(stubs, "big"), "stub.go", "package big\n\nfunc Text() string { return \"another stub\" }\n")
	if got := output(); got != "dep and another stub" {
		t.Errorf("with another stub: got %q", got)
	}
	write(t, stubs, "dep.go", "package dep\n\nfunc Text() string { return \"one file\" }\n")
	if got := output(); got != "one file" {
		t.Errorf("with a stub for one file: got %q", got)
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
		t.Errorf("built %s from a module that does not match go.sum", file)
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	root, err := Root(".")
	check.OK(t, err)
	if !exists(filepath.Join(root, "emulators", "internal", "tool", "tool.go")) {
		t.Errorf("got root %s, want the repository's", root)
	}
	if root, err := Root(t.TempDir()); err == nil {
		t.Errorf("outside the repository: got root %s, want an error", root)
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
		t.Errorf("%s: got output %q, %v, want \"v1.2.3\" from a program other than %s", stamped, out, err, plain)
	}
}
