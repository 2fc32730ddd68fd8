// Package tool builds the programs that emulators run from modules pinned in a
// go.mod of their own, once per machine and pin.
//
// A program is kept in .local/tools under a name that holds a digest of go.mod,
// go.sum, the sources beside them, the stubs, the options and the Go version, so one that is there is right, and looking
// costs nothing. Two processes that need the same program at once build it once.
//
// A package that a program has but nobody needs here can be left out by a [Stub].
package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

// progressEvery is from one line about a long build to the next.
const progressEvery = 15 * time.Second

// Program is what to build.
type Program struct {
	Root    string // the repository's root
	Module  string // folder of the pinning go.mod, relative to Root, e.g. "emulators/kube/tools"
	Package string // e.g. "k8s.io/kubernetes/cmd/kube-apiserver"
	Name    string // of the program, e.g. "kube-apiserver"
	Stubs   []Stub

	Static bool     // linked without the machine's C libraries, for images
	Tags   string   // of the build, e.g. "osusergo,netgo"
	Vars   []string // set by the linker, e.g. "k8s.io/component-base/version.gitMajor=1"

	// Progress takes lines about a build for a person to read; nil drops them.
	Progress io.Writer
}

// Stub stands for a package and all below it, and so for what these import. Its source
// is in the folder stubs beside the pinning go.mod, under the last part of Package.
type Stub struct {
	Module  string // e.g. "github.com/traefik/traefik/v3"
	Package string // below it, e.g. "pkg/provider/ecs"
}

func (p Program) source(s Stub) string {
	return filepath.Join(p.Root, p.Module, "stubs", path.Base(s.Package))
}

// Path gives the program's file, which it builds when it is not there.
func (p Program) Path(ctx context.Context) (string, error) {
	dir, err := filepath.Abs(filepath.Join(p.Root, ".local", "tools")) // go build runs in another folder
	if err != nil {
		return "", fmt.Errorf("make a place for %s: %w", p.Name, err)
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
		return "", fmt.Errorf("make a place for %s: %w", p.Name, err)
	}
	unlock, err := lock(filepath.Join(dir, p.Name+".lock"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.Name, err)
	}
	defer unlock()
	if exists(file) { // the other process has built it
		return file, nil
	}
	return file, p.build(ctx, file)
}

// digest names this pin of the program.
func (p Program) digest() (string, error) {
	h := sha256.New()
	files := []string{filepath.Join(p.Root, p.Module, "go.mod"), filepath.Join(p.Root, p.Module, "go.sum")}
	own, err := filepath.Glob(filepath.Join(p.Root, p.Module, "*.go"))
	if err != nil {
		return "", fmt.Errorf("find the sources of %s: %w", p.Name, err)
	}
	files = append(files, own...)
	for _, s := range p.Stubs {
		found, err := filepath.Glob(filepath.Join(p.source(s), "*.go"))
		if err != nil || len(found) == 0 {
			return "", errors.Join(fmt.Errorf("no source of the stub of %s/%s", s.Module, s.Package), err)
		}
		files = append(files, found...)
		h.Write([]byte(s.Module + s.Package))
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the pins of %s: %w", p.Name, err)
		}
		h.Write(b)
	}
	h.Write([]byte(p.Package + runtime.Version()))
	if p.Static || p.Tags != "" || p.Vars != nil {
		_, _ = fmt.Fprint(h, p.Static, p.Tags, p.Vars) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// build makes the program beside its place and then moves it there, so that a
// build that breaks off leaves nothing that looks finished.
func (p Program) build(ctx context.Context, file string) error {
	part := file + ".part"
	args, env := p.flags()
	args = append([]string{"build", "-mod=readonly", "-buildvcs=false", "-o", part}, args...)
	if len(p.Stubs) > 0 {
		modfile, err := p.leaveOut(ctx, filepath.Join(filepath.Dir(file), p.Name+".src"))
		if err != nil {
			return fmt.Errorf("leave packages out of %s: %w", p.Name, err)
		}
		defer func() { _ = os.RemoveAll(filepath.Dir(modfile)) }() // what stays takes room until the next build
		args = append(args, "-modfile="+modfile)
	}
	run, err := child.Start(child.Command{
		Name: "go build " + p.Package,
		Path: "go",
		Args: append(args, p.Package),
		Env:  append(append(os.Environ(), "GOWORK=off"), env...),
		Dir:  filepath.Join(p.Root, p.Module),
		Tree: true,
	})
	if err != nil {
		return err
	}
	if err := p.wait(ctx, run); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("keep %s: %w", p.Name, err)
	}
	p.removeOlder(file)
	return nil
}

// flags are what the options say to go build. The paths of this machine go only into
// programs that stay on it.
func (p Program) flags() (args, env []string) {
	link := "-s -w"
	for _, v := range p.Vars {
		link += " -X " + v
	}
	args = []string{"-ldflags=" + link, "-tags=" + p.Tags}
	if p.Static {
		return append(args, "-trimpath"), []string{"CGO_ENABLED=0"}
	}
	return args, nil
}

// leaveOut copies the modules of the stubs to dir, puts the stubs in their places, and
// writes a go.mod there that leads to the copies: Go takes no other file for one of its
// module cache. go.sum still holds for all other modules, and held for what was copied.
func (p Program) leaveOut(ctx context.Context, dir string) (modfile string, err error) {
	if err := os.RemoveAll(dir); err != nil { // what a build left that was killed
		return "", err
	}
	pins := filepath.Join(p.Root, p.Module)
	if err := os.CopyFS(dir, os.DirFS(pins)); err != nil {
		return "", err
	}
	modfile = filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(modfile)
	if err != nil {
		return "", err
	}
	for _, s := range p.Stubs {
		from, err := ModuleDir(ctx, pins, s.Module)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, filepath.FromSlash(s.Module))
		place := filepath.Join(to, filepath.FromSlash(s.Package))
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return "", err
		}
		if err := os.RemoveAll(place); err != nil {
			return "", err
		}
		if err := os.CopyFS(place, os.DirFS(p.source(s))); err != nil {
			return "", err
		}
		text = fmt.Appendf(text, "\nreplace %s => %s\n", s.Module, to)
	}
	return modfile, os.WriteFile(modfile, text, 0o600)
}

// ModuleDir is where a module is that the go.mod in dir pins. It is downloaded when it
// is not there, and held against go.sum.
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

// wait waits for the build's end and tells a person how long it takes.
func (p Program) wait(ctx context.Context, run *child.Process) error {
	began := time.Now() //nolint:forbidigo // only shown
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	p.say("building %s (first time only, takes some minutes)", p.Name)
	for {
		select {
		case <-run.Done():
			if err := run.Wait(); err != nil {
				return err
			}
			p.say("built %s in %v", p.Name, time.Since(began).Round(time.Second))
			return nil
		case <-tick.C:
			p.say("still building %s, %v so far (first time only)", p.Name, time.Since(began).Round(time.Second))
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), run.Kill())
		}
	}
}

func (p Program) say(format string, args ...any) {
	if p.Progress != nil {
		// A line that can't be shown must not stop the build.
		_, _ = fmt.Fprintf(p.Progress, format+"\n", args...)
	}
}

// removeOlder drops programs of former pins: they are some hundred megabytes.
func (p Program) removeOlder(file string) {
	old, err := filepath.Glob(filepath.Join(filepath.Dir(file), p.Name+"-*"))
	if err != nil {
		return
	}
	for _, f := range old {
		if f != file {
			_ = os.Remove(f) // one that stays only takes room
		}
	}
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// lock takes an advisory lock that ends with this process at the latest.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}

// Root finds the repository's root from a folder inside it, "" being the working directory:
// the one whose go.mod is that of the product.
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
