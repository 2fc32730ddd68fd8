package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

const (
	functionLimit    = 60 * time.Second // for a function to answer; usually one second
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

// allFunctions lists what the stack knows how to run. One that a checkout has no
// program of is left out.
func allFunctions() []function {
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

// functions gives those that the checkout has a program of.
func (s *Stack) functions() ([]function, error) {
	exist := slices.DeleteFunc(allFunctions(), func(f function) bool {
		_, err := os.Stat(filepath.Join(s.o.Root, "functions", f.name, "cmd", "main.go"))
		return err != nil
	})
	if len(exist) == 0 {
		return nil, fmt.Errorf("there are no functions in %s", s.o.Root)
	}
	return exist, nil
}

func has(list []function, names ...string) bool {
	for _, name := range names {
		if !slices.ContainsFunc(list, func(f function) bool { return f.name == name }) {
			return false
		}
	}
	return true
}

// build makes the programs of the functions and of the workloads emulator.
func (s *Stack) build(ctx context.Context, list []function) error {
	return s.progress.step("programs", func() error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.buildOne(ctx, workloadsProgram, "./emulators/workloads/cmd") })
		if has(list, "builds") {
			g.Go(func() error { return s.buildOne(ctx, buildsProgram, "./emulators/builds/cmd") })
		}
		for _, f := range list {
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
