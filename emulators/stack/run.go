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
	mountEvery    = 20 * time.Millisecond // from one look for a mounted file to the next
	functionTries = 3                     // to start a function
	functionPause = time.Second           // between them
)

// startFunctions starts the functions side by side; the checkers once wiring has
// made their certificate.
func (s *Stack) startFunctions(ctx, life context.Context, list []function) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range list {
		if f.name != checkerFunction && f.name != standinFunction {
			g.Go(func() error { return s.startFunction(ctx, f) })
		}
	}
	switch {
	case !has(list, checkerFunction):
	case !has(list, "wiring"):
		s.progress.say("no checkers: without the function wiring they have no certificate")
	default:
		g.Go(func() error { return s.startGate(ctx, life, has(list, standinFunction)) })
	}
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

func (s *Stack) checkerCA() string { return s.path("secrets/" + checkerSecret + "/ca.crt") }

// waitCertificate waits until the checkers' Secret is mounted.
func (s *Stack) waitCertificate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, functionLimit)
	defer cancel()
	tick := time.NewTicker(mountEvery)
	defer tick.Stop()
	for {
		if _, err := os.Stat(s.checkerCA()); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the Secret %s, which wiring makes: %w", checkerSecret, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
