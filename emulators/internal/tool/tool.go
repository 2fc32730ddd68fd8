// Package tool builds third-party programs from modules that a separate go.mod pins. It builds
// each program once per machine and pin, in .local/tools: the file name contains a digest of
// everything that affects the build.
package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

const statusEvery = time.Second

// Program is a program to build, or several of one module that one command builds.
type Program struct {
	Root     string
	Module   string // folder of the pinning go.mod, e.g. "emulators/tools"
	Packages []string
	Name     string

	// Stubs are partly replaced modules. Their stubs are in the folder stubs next to go.mod,
	// below the path of the module and the package. A file stub.go replaces its package and all
	// packages below it; any other file replaces the file with its name.
	Stubs []string

	Tags     string   // e.g. "osusergo,netgo"
	Vars     []string // linker settings, e.g. "k8s.io/component-base/version.gitMajor=1"
	Compiler []string // options per package; the last match applies

	// Progress receives the progress; nil discards it.
	Progress io.Writer
}

// Path returns the program's file, or a folder with one file per package. It builds the program
// if necessary.
func (p Program) Path(ctx context.Context) (string, error) {
	dir, err := filepath.Abs(filepath.Join(p.Root, ".local", "tools")) // go build runs in another folder
	if err != nil {
		return "", fmt.Errorf("create the folder of %s: %w", p.Name, err)
	}
	digest, err := p.digest()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, p.Name+"-"+digest)
	if exists(file) {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("create the folder of %s: %w", p.Name, err)
	}
	unlock, err := Lock(filepath.Join(dir, p.Name+".lock"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.Name, err)
	}
	defer unlock()
	if exists(file) {
		return file, nil
	}
	return file, p.build(ctx, file)
}

func (p Program) digest() (string, error) {
	h := sha256.New()
	dir := filepath.Join(p.Root, p.Module)
	files := []string{filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum")}
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if filepath.Ext(file) == ".go" {
			files = append(files, file)
			h.Write([]byte(strings.TrimPrefix(file, dir)))
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("find the sources of %s: %w", p.Name, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the pins of %s: %w", p.Name, err)
		}
		h.Write(b)
	}
	_, _ = fmt.Fprint(h, p.Packages, p.Stubs, p.Tags, p.Vars, p.Compiler, runtime.Version()) // a hash never fails
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// build renames the complete program, so that an interrupted build leaves no file that looks
// complete.
func (p Program) build(ctx context.Context, file string) (err error) {
	part := file + ".part"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	status := p.newStatus()
	status.show.Status("downloading the modules of " + p.Name)
	args, env := p.flags()
	if len(p.Stubs) > 0 {
		modfile, err := p.leaveOut(ctx, filepath.Join(filepath.Dir(file), p.Name+".src"))
		if err != nil {
			return fmt.Errorf("leave packages out of %s: %w", p.Name, err)
		}
		defer func() { _ = os.RemoveAll(filepath.Dir(modfile)) }() // harmless until the next build
		args = append(args, "-modfile="+modfile)
	}
	env = append(append(os.Environ(), "GOWORK=off"), env...)
	if status.total, err = p.count(ctx, args, env); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	out := part
	if len(p.Packages) > 1 {
		out += string(filepath.Separator)
	}
	run, err := child.Start(child.Command{
		Name: "go build " + strings.Join(p.Packages, " "),
		Path: "go",
		Args: slices.Concat([]string{"build", "-v", "-o", out}, args, p.Packages),
		Env:  env,
		Dir:  filepath.Join(p.Root, p.Module),
		Log:  status,
		Tree: true,
	})
	if err != nil {
		return err
	}
	if err := status.wait(ctx, run); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, errors.Join(err, os.RemoveAll(part)))
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("store %s: %w", p.Name, err)
	}
	p.removeOlder(file)
	return nil
}

// flags build static programs like the product's images, so that both use the same compiled
// packages.
func (p Program) flags() (args, env []string) {
	link := "-s -w"
	for _, v := range p.Vars {
		link += " -X " + v
	}
	args = []string{"-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags=" + link, "-tags=" + p.Tags}
	for _, c := range p.Compiler {
		args = append(args, "-gcflags="+c)
	}
	return args, []string{"CGO_ENABLED=0"}
}

func (p Program) count(ctx context.Context, args, env []string) (int, error) {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, args, p.Packages)...)
	cmd.Dir, cmd.Env = filepath.Join(p.Root, p.Module), env
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.Count(string(out), "\n"), err
}

// leaveOut copies the modules with stubs to dir and writes a go.mod for the copies, because Go
// accepts no replaced files in its module cache. go.sum still verifies all modules.
func (p Program) leaveOut(ctx context.Context, dir string) (modfile string, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	pins := filepath.Join(p.Root, p.Module)
	if err := os.CopyFS(dir, os.DirFS(pins)); err != nil {
		return "", err
	}
	modfile = filepath.Join(dir, "go.mod")
	edit := []string{"mod", "edit"}
	for _, module := range p.Stubs {
		from, err := ModuleDir(ctx, pins, module)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, "copies", filepath.FromSlash(module))
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return "", err
		}
		if err := replace(to, os.DirFS(filepath.Join(pins, "stubs", filepath.FromSlash(module)))); err != nil {
			return "", fmt.Errorf("stubs of %s: %w", module, err)
		}
		edit = append(edit, "-replace="+module+"="+to)
	}
	if out, err := exec.CommandContext(ctx, "go", append(edit, modfile)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("edit %s: %w: %s", modfile, err, out)
	}
	return modfile, nil
}

func replace(module string, stubs fs.FS) error {
	return fs.WalkDir(stubs, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file := filepath.Join(module, filepath.FromSlash(name))
		replaced := file
		if entry.Name() == "stub.go" {
			replaced = filepath.Dir(file)
		}
		if !exists(replaced) {
			return fmt.Errorf("stub %s replaces nothing", name)
		}
		if err := os.RemoveAll(replaced); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return err
		}
		text, err := fs.ReadFile(stubs, name)
		if err != nil {
			return err
		}
		return os.WriteFile(file, text, 0o600)
	})
}

// ModuleDir returns the folder of a pinned module. It downloads the module if necessary, and
// verifies it with go.sum.
func ModuleDir(ctx context.Context, dir, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	if decoded := json.Unmarshal(out, &got); decoded != nil {
		return "", fmt.Errorf("find module %s: %w", module, errors.Join(err, decoded))
	}
	if got.Error != "" {
		err = errors.New(got.Error)
	}
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return got.Dir, nil
}

// removeOlder removes the programs of previous pins, because they are large.
func (p Program) removeOlder(file string) {
	old, err := filepath.Glob(filepath.Join(filepath.Dir(file), p.Name+"-*"))
	if err != nil {
		return
	}
	for _, f := range old {
		if f != file {
			_ = os.RemoveAll(f) // harmless
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Lock waits for an advisory lock. The lock ends with this process at the latest.
func Lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}

// Root returns the root of the repository that contains the folder from; empty is the working
// directory.
func Root(from string) (string, error) {
	dir, err := filepath.Abs(from)
	if err != nil {
		return "", fmt.Errorf("find the repository's root: %w", err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/sluicegate/sluice\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside the repository", from)
		}
		dir = filepath.Dir(dir)
	}
}
