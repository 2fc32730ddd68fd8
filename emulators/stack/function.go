package stack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/tool"
)

const (
	functionLimit    = 3 * time.Minute // usually one second
	functionTries    = 3
	functionPause    = time.Second
	workloadsProgram = "workloads-emulator"
	buildsProgram    = "builds-emulator"

	checkerFunction = "checker"
	standinFunction = "standin"
	checkerService  = "sluice-checker"
	replicasService = "sluice-checker-replicas" // without the stand-in
	checkerTarget   = 8443
	functionPort    = 8080
	metricsTarget   = 9090
)

type function struct {
	name    string
	cluster bool
}

func functions() []function {
	return []function{
		{name: "session"},
		{name: "keys"},
		{name: "usage"},
		{name: "rollup"},
		{name: "console"},
		{name: checkerFunction},
		{name: standinFunction},
		{"apps", true},
		{"wiring", true},
		{"webhook", true},
		{"deploys", true},
		{"builds", true},
	}
}

func (f function) service() string {
	switch f.name {
	case checkerFunction:
		return checkerService
	case standinFunction:
		return replicasService
	}
	return f.name
}

// programDir depends on the build flags, so that equal stacks share a program.
func (s *Stack) programDir() string {
	switch {
	case s.o.BuildFlags != nil:
		return s.path("bin")
	case s.o.Race:
		return filepath.Join(s.o.Root, ".local", "race")
	default:
		return filepath.Join(s.o.Root, ".local", "bin")
	}
}

func (s *Stack) program() string { return filepath.Join(s.programDir(), "functions") }

// UsePrograms sets the folder of the programs for functions that start from now on, such as
// those of another release. An empty dir restores this release.
func (s *Stack) UsePrograms(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs = dir
}

func (s *Stack) programOf(function string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.programs != "" {
		return filepath.Join(s.programs, function)
	}
	return s.program()
}

// build builds the program once, even for concurrent stacks.
func (s *Stack) build(ctx context.Context) error {
	unlock, err := tool.Lock(s.program() + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	args := []string{"build", "-buildvcs=false", "-trimpath", "-o", s.program()}
	cgo := "CGO_ENABLED=0" // as in the images, so that both use the same compiled packages
	if s.o.Race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	run, err := child.Start(child.Command{
		Name: "go build", Path: "go", Args: slices.Concat(args, s.o.BuildFlags, []string{"./emulators/stack/functions"}), Dir: s.o.Root,
		Env: append(append(os.Environ(), cgo), s.mark()...), Tree: true,
	})
	if err != nil {
		return err
	}
	select {
	case <-run.Done():
		return run.Wait()
	case <-ctx.Done():
		if err := run.Kill(); err != nil {
			return err
		}
		return fmt.Errorf("build the functions: %w", context.Cause(ctx))
	}
}

func (s *Stack) startFunction(ctx context.Context, f function) error {
	url := s.functionURL(f.service()) + "/healthz"
	service, err := s.run(ctx, instance{
		function: f, name: f.name, host: s.addresses[f.service()], port: functionPort,
		check: func(ctx context.Context) error { return child.Get(ctx, http.DefaultClient, url) },
	})
	if err != nil {
		return err
	}
	s.manage(f.name, &managed{Service: service, function: true})
	return nil
}

type instance struct {
	function

	name  string
	host  string
	port  int
	own   map[string]string
	check child.Check
	grace time.Duration // from SIGTERM to SIGKILL; 0 is the default
}

// run starts a function. If it exits before it is ready, run retries, as a kubelet does: its
// dependencies may be slow on a busy machine.
func (s *Stack) run(ctx context.Context, i instance) (*child.Service, error) {
	command := child.Command{
		Args:    []string{i.function.name},
		Env:     s.functionEnvironment(i.function, i.host, i.port, i.own),
		LogFile: filepath.Join(s.logs(), i.name+".log"),
		Grace:   i.grace,
	}
	retry := time.NewTicker(functionPause)
	defer retry.Stop()
	for try := 1; ; try++ {
		service, err := child.Run(ctx, i.name, functionLimit, func() (child.Command, child.Check) {
			command.Path = s.programOf(i.function.name)
			return command, i.check
		})
		if err == nil || try == functionTries || ctx.Err() != nil {
			return service, err
		}
		s.log.Warn("start function failed", "function", i.name, "try", try, "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-retry.C:
		}
	}
}
