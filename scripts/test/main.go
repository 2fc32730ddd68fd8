// Command test runs the test suite in parts and prints a summary.
//
//	test [-v] [-long] [PART ...]
//
// The file .local/test/PART.log contains the output of all tests. The last line is "N passed, N
// failed, N skipped". It counts top-level tests, and one failure for each package that failed
// outside of its tests. The exit status is 1 if anything failed or no test ran.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/services"
)

// grace is the time in which go test must end after an interrupt.
const grace = 20 * time.Second

func main() {
	verbose := flag.Bool("v", false, "print the output of all tests")
	long := flag.Bool("long", false, "run everything at full length, with the race detector")
	flag.Parse()
	saveCPU()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run, unknown := selected(parts(), flag.Args(), *long)
	if unknown != "" {
		fmt.Fprintf(os.Stderr, "test: no part %q\n", unknown)
		os.Exit(2)
	}
	r := runner{out: os.Stdout, logs: filepath.Join(".local", "test"), verbose: *verbose, long: *long, now: time.Now, start: startServices}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.module = info.Main.Path
	}
	s := r.all(ctx, run)
	s.write(os.Stdout, *verbose)
	stop()
	if !s.ok() {
		os.Exit(1)
	}
}

// saveCPU reduces garbage collection in tests unless GOGC is set. The tests of tests/infra then
// need 23% less processor time.
func saveCPU() {
	if os.Getenv("GOGC") == "" {
		_ = os.Setenv("GOGC", "400")
	}
}

func startServices(ctx context.Context) (env []string, stop func() error, err error) {
	s, err := services.Start(ctx, services.Options{Progress: os.Stdout})
	if err != nil {
		return nil, nil, err
	}
	return s.Environment(), s.Close, nil
}

type runner struct {
	out           io.Writer
	dir           string // empty is the working directory
	logs          string
	module        string // removed from printed paths
	verbose, long bool
	now           func() time.Time

	// start starts the shared services of a part and returns their environment variables.
	start func(ctx context.Context) (env []string, stop func() error, err error)
}

func (r *runner) all(ctx context.Context, parts []part) summary {
	var s summary
	for _, p := range parts {
		if ctx.Err() != nil {
			s = append(s, &result{part: p.name, failures: []string{p.name + " (not run)"}})
			continue
		}
		began := r.now()
		res, err := r.part(ctx, p)
		res.wall = r.now().Sub(began)
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		if err != nil && (ctx.Err() != nil || res.count("fail") == 0) {
			res.failures = append(res.failures, fmt.Sprintf("%s (%v)", p.name, err))
		}
		s = append(s, res)
	}
	return s
}

func (r *runner) part(ctx context.Context, p part) (res *result, err error) {
	res = &result{part: p.name}
	packages, err := r.packages(ctx, p)
	if err != nil {
		return res, err
	}
	if err := os.MkdirAll(r.logs, 0o750); err != nil {
		return res, fmt.Errorf("create log folder: %w", err)
	}
	log, err := os.Create(filepath.Join(r.logs, p.name+".log"))
	if err != nil {
		return res, fmt.Errorf("create log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	_, _ = fmt.Fprintf(r.out, "\n%s: go %s (%d packages)\n", p.name, strings.Join(p.arguments(nil, r.long), " "), len(packages))
	s := newStream(res, r.module, r.out, log, r.verbose)
	cmd := r.command(ctx, p.arguments(packages, r.long)...)
	cmd.Stdout = s
	cmd.Stderr = (*plain)(s)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=10") // by default, programs sleep 1 s at their end
	if p.services {
		env, stop, failed := r.start(ctx)
		if failed != nil {
			return res, fmt.Errorf("start shared services: %w", failed)
		}
		defer func() { err = errors.Join(err, stop()) }()
		cmd.Env = append(cmd.Env, env...)
	}
	if slices.Contains(cmd.Args, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1") // the Makefile disables it
	}
	if r.long {
		cmd.Env = append(cmd.Env, "SLUICE_LONG=1")
	}
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that ignored the interrupt
	}
	s.close()
	return res, err
}

// packages returns import paths in the order of the patterns.
func (r *runner) packages(ctx context.Context, p part) ([]string, error) {
	all, err := r.list(ctx, p.packages)
	if err != nil || len(p.except) == 0 {
		return all, err
	}
	except, err := r.list(ctx, p.except)
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(except, name) }), err
}

func (r *runner) list(ctx context.Context, patterns []string) ([]string, error) {
	cmd := r.command(ctx, append([]string{"list"}, patterns...)...)
	cmd.Stderr = r.out
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// command returns a go command in its own process group, which ctx interrupts.
func (r *runner) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // The arguments come from the table of parts.
	cmd.Dir = r.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	return cmd
}
