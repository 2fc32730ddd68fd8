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
	functionLimit    = 3 * time.Minute // for a function to answer; usually one second
	functionTries    = 3               // to start a function
	functionPause    = time.Second     // between them
	workloadsProgram = "workloads-emulator"
	buildsProgram    = "builds-emulator"

	checkerFunction = "checker"
	standinFunction = "standin"
	checkerService  = "sluice-checker"          // of the checkers and their stand-in
	replicasService = "sluice-checker-replicas" // of the checkers alone
	checkerTarget   = 8443                      // port of both
	functionPort    = 8080                      // of every other function's Service
	metricsTarget   = 9090                      // of every other function's /metrics, beside it
)

// function is one of the repository's functions.
type function struct {
	name    string
	cluster bool // uses the Kubernetes API
}

// functions lists what the stack runs.
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

// service is the name of a function's Service.
func (f function) service() string {
	switch f.name {
	case checkerFunction:
		return checkerService
	case standinFunction:
		return replicasService // which it watches
	}
	return f.name
}

// programDir is the folder of the program that all functions and emulators share. Stacks
// that are built with the same flags share the folder, so an unchanged program is not linked again.
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

// program is the file of that program.
func (s *Stack) program() string { return filepath.Join(s.programDir(), "functions") }

// UsePrograms lets each function that starts from now on run the program of its name in dir,
// such as one of another release. With an empty dir, functions run this release again.
func (s *Stack) UsePrograms(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs = dir
}

// programOf returns the file of a function's program.
func (s *Stack) programOf(function string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.programs != "" {
		return filepath.Join(s.programs, function)
	}
	return s.program()
}

// build builds the program of the functions and emulators. Of several stacks that need it at
// the same time, one compiles it.
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

// instance is a process of a function.
type instance struct {
	function

	name  string // in the stack, and of its log
	host  string // where it listens
	port  int
	own   map[string]string // settings of this process alone
	check child.Check
	grace time.Duration // from SIGTERM to SIGKILL; 0 is the usual one
}

// run starts a function, and again when it ends instead of answering, as a
// kubelet does: what it needs may be slow on a busy machine. One that fails each
// time fails the start.
func (s *Stack) run(ctx context.Context, i instance) (*child.Service, error) {
	command := child.Command{
		Args:    []string{i.function.name},
		Env:     s.functionEnvironment(i.function, i.host, i.port, i.own),
		LogFile: filepath.Join(s.logs(), i.name+".log"),
		Grace:   i.grace,
	}
	again := time.NewTicker(functionPause)
	defer again.Stop()
	for try := 1; ; try++ {
		service, err := child.Run(ctx, i.name, functionLimit, func() (child.Command, child.Check) {
			command.Path = s.programOf(i.function.name)
			return command, i.check
		})
		if err == nil || try == functionTries || ctx.Err() != nil {
			return service, err
		}
		s.log.Warn("function did not start", "function", i.name, "try", try, "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-again.C:
		}
	}
}
