package stacktest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/sluicegate/sluice/emulators/stack"
)

// Main runs a package's tests over a stack of its own, built with the race detector
// in a folder of its own, and gives the exit status. with completes the options and
// may use the folder; ready takes the stack before the first test. The folder, and
// the logs in it, are kept when a test has failed.
func Main(m *testing.M, with func(dir string, o *stack.Options) error, ready func(*stack.Stack)) int {
	code, err := run(m, with, ready)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func run(m *testing.M, with func(dir string, o *stack.Options) error, ready func(*stack.Stack)) (int, error) {
	dir, err := os.MkdirTemp("", "sluice-tests-")
	if err != nil {
		return 1, err
	}
	failed := true
	defer func() {
		if failed {
			fmt.Fprintln(os.Stderr, "the logs are kept:", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	o := stack.Options{Dir: dir, Log: os.Stderr, Race: true}
	if err := with(dir, &o); err != nil {
		return 1, err
	}
	http.DefaultTransport = Described(http.DefaultTransport) // before anything of the stack uses it
	s, err := stack.Start(context.Background(), o)
	if err != nil {
		return 1, fmt.Errorf("start the stack: %w", err)
	}
	d, err := describe(s.Info().BaseURL)
	if err != nil {
		return 1, errors.Join(err, s.Close())
	}
	described.Store(d)
	if err := d.probe(context.Background()); err != nil {
		return 1, errors.Join(err, s.Close())
	}
	ready(s)
	code := m.Run()
	if !d.tell() {
		code = max(code, 1)
	}
	if err := s.Close(); err != nil {
		return code, fmt.Errorf("stop the stack: %w", err)
	}
	failed = code != 0
	return code, nil
}
