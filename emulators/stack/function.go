package stack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

const (
	functionLimit    = 60 * time.Second // for a function to answer; usually one second
	functionTries    = 3                // to start a function
	functionPause    = time.Second      // between them
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

	// settings adds to the environment that all functions have.
	settings func(s *Stack) map[string]string
}

// functions lists what the stack runs.
func functions() []function {
	none := func(*Stack) map[string]string { return nil }
	return []function{
		{name: "session", settings: (*Stack).sessionSettings},
		{name: "keys", settings: none},
		{name: "usage", settings: none},
		{name: "rollup", settings: none},
		{name: "apps", cluster: true, settings: (*Stack).appsSettings},
		{name: "wiring", cluster: true, settings: (*Stack).wiringSettings},
		{name: "webhook", cluster: true, settings: (*Stack).webhookSettings},
		{name: "deploys", cluster: true, settings: (*Stack).deploysSettings},
		{name: "builds", cluster: true, settings: (*Stack).buildsSettings},
		{name: "console", settings: (*Stack).consoleSettings},
		{name: checkerFunction, settings: none},
		{name: standinFunction, settings: (*Stack).standinSettings},
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

// build makes the programs of the functions and of the emulators.
func (s *Stack) build(ctx context.Context) error {
	return s.progress.step("programs", func() error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.buildOne(ctx, workloadsProgram, "./emulators/workloads/cmd") })
		g.Go(func() error { return s.buildOne(ctx, buildsProgram, "./emulators/builds/cmd") })
		for _, f := range functions() {
			g.Go(func() error { return s.buildOne(ctx, f.name, "./functions/"+f.name+"/cmd", s.o.BuildFlags...) })
		}
		return g.Wait()
	})
}

func (s *Stack) buildOne(ctx context.Context, name, pkg string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-o", s.path("bin/" + name)}, flags...)
	if s.o.Race {
		args = append(args, "-race")
	}
	run, err := child.Start(child.Command{
		Name: "go build " + pkg, Path: "go", Args: append(args, pkg), Dir: s.o.Root,
		Env: append(os.Environ(), s.mark()...), Tree: true,
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
		return fmt.Errorf("build %s: %w", pkg, context.Cause(ctx))
	}
}

// startFunctions starts the functions side by side; the checkers once wiring has
// made their certificate.
func (s *Stack) startFunctions(ctx, life context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range functions() {
		if f.name != checkerFunction && f.name != standinFunction {
			g.Go(func() error { return s.startFunction(ctx, f) })
		}
	}
	g.Go(func() error { return s.startGate(ctx, life) })
	return g.Wait()
}

func (s *Stack) startFunction(ctx context.Context, f function) error {
	command := child.Command{
		Path:    s.path("bin/" + f.name),
		Env:     s.functionEnvironment(f, s.addresses[f.service()], functionPort, nil),
		LogFile: filepath.Join(s.logs(), f.name+".log"),
	}
	url := s.functionURL(f.service()) + "/healthz"
	service, err := s.tryFunction(ctx, f.name, func() (child.Command, child.Check) {
		return command, func(ctx context.Context) error { return child.Get(ctx, http.DefaultClient, url) }
	})
	if err != nil {
		return err
	}
	s.manage(f.name, service, true)
	return nil
}

// tryFunction starts a function, and again when it ends instead of answering, as a
// kubelet does: what it needs may be slow on a busy machine. One that fails each
// time fails the start.
func (s *Stack) tryFunction(ctx context.Context, name string, prepare func() (child.Command, child.Check)) (*child.Service, error) {
	again := time.NewTicker(functionPause)
	defer again.Stop()
	for try := 1; ; try++ {
		service, err := child.Run(ctx, name, functionLimit, prepare)
		if err == nil || try == functionTries || ctx.Err() != nil {
			return service, err
		}
		s.log.Warn("function did not start", "function", name, "try", try, "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-again.C:
		}
	}
}
