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

// Elsewhere tells whether the tests run over a stack that is there already, such as a
// cluster: SLUICE_STACK names the file that describes it.
func Elsewhere() bool { return os.Getenv(elsewhere) != "" }

const elsewhere = "SLUICE_STACK"

// Insides skips a test that looks at, or takes hold of, what only a local stack has: its
// processes, its logs, their settings, and its emulators.
func Insides(t testing.TB, why string) {
	t.Helper()
	if Elsewhere() {
		t.Skip("of the local stack alone: " + why)
	}
}

// Main runs a package's tests over a stack of its own, built with the race detector
// in a folder of its own, and gives the exit status. with completes the options and
// may use the folder; ready takes the stack before the first test. The folder, and
// the logs in it, are kept when a test has failed. [Elsewhere], all but ready is left out.
func Main(m *testing.M, with func(dir string, o *stack.Options) error, ready func(*stack.Stack)) int {
	return InFolder(func(dir string) (int, error) { return run(m, dir, with, ready) })
}

// InFolder calls run with a new folder for logs, and returns its exit status, or at least 1 after
// an error. The folder is deleted if the status is 0.
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
		fmt.Fprintln(os.Stderr, "the logs are kept:", dir)
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
	http.DefaultTransport = Described(http.DefaultTransport) // before anything of the stack uses it
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
	if !d.tell() {
		code = max(code, 1)
	}
	if err := s.Close(); err != nil {
		return code, fmt.Errorf("stop the stack: %w", err)
	}
	return code, nil
}

// open starts a stack, or finds the one that is there.
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
