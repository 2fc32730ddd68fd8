// Package tests looks at a running stack from outside, through its ingress and
// its management API: one file per section of the specification. The stack is
// the real one of emulators/stack; every test works in a project of its own.
package tests

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
)

// progressDeadline is how long a rollout may make no progress here; two minutes by
// default.
const progressDeadline = 6 * time.Second

// world is the stack that all tests here share.
var world *stack.Stack

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	world, err = stack.Start(context.Background(), stack.Options{
		Root: "..", Dir: dir, PortBase: 18180, Log: os.Stderr, Race: true,
		Env: map[string]map[string]string{"deploys": {"PROGRESS_DEADLINE": progressDeadline.String()}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the stack:", err)
		return 1
	}
	code := m.Run()
	if err := world.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the stack:", err)
		return 1
	}
	return code
}
