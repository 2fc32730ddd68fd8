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

// Elsewhere reports whether the tests use the stack that SLUICE_STACK describes.
func Elsewhere() bool { return os.Getenv(elsewhere) != "" }

const elsewhere = "SLUICE_STACK"

// Insides skips a test that needs the processes or emulators of a local stack.
func Insides(t testing.TB, reason string) {
	t.Helper()
	if Elsewhere() {
		t.Skip("needs the local stack: " + reason)
	}
}

// Main runs a package's tests with a separate stack, built with the race detector. with
// sets the options, except if [Elsewhere] is true; ready runs before the tests.
func Main(m *testing.M, with func(dir string, o *stack.Options) error, ready func(*stack.Stack)) int {
	return InFolder(func(dir string) (int, error) { return run(m, dir, with, ready) })
}

// InFolder calls run with a folder for logs, which remains after a failure.
func InFolder(run func(dir string) (int, error)) int {
	dir, err := os.MkdirTemp("", "sluice-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code, err := run(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "The logs are in", dir)
		return code
	}
	_ = os.RemoveAll(dir)
	return 0
}

func run(m *testing.M, dir string, with func(dir string, o *stack.Options) error, ready func(*stack.Stack)) (int, error) {
	o := stack.Options{Dir: dir, Log: os.Stderr, Race: true, ManyCalls: true}
	if !Elsewhere() {
		if err := with(dir, &o); err != nil {
			return 1, err
		}
	}
	http.DefaultTransport = Described(http.DefaultTransport) // before its first use
	s, err := open(o)
	if err != nil {
		return 1, err
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
	if !d.summarize() {
		code = max(code, 1)
	}
	if err := s.Close(); err != nil {
		return code, fmt.Errorf("stop the stack: %w", err)
	}
	return code, nil
}

// open starts or attaches to a stack.
func open(o stack.Options) (*stack.Stack, error) {
	if file := os.Getenv(elsewhere); file != "" {
		return stack.Attach(context.Background(), file)
	}
	s, err := stack.Start(context.Background(), o)
	if err != nil {
		return nil, fmt.Errorf("start the stack: %w", err)
	}
	return s, nil
}
