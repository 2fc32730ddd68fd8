// Package tests looks at a running stack from outside, through its ingress and its
// management API, in files by theme, and holds it to the promises of README.md. The
// stack is the real one of emulators/stack; every test works in a project of its own.
package tests

import (
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// progressDeadline is how long a rollout may make no progress here; two minutes by
// default.
const progressDeadline = 15 * time.Second

// world is the stack that all tests here share.
var world *stack.Stack

func TestMain(m *testing.M) {
	os.Exit(stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = 18180
		o.Env = map[string]map[string]string{
			"deploys": {"PROGRESS_DEADLINE": progressDeadline.String()},
			"checker": {"DENIALS_LOGGED_PER_SECOND": "1000"}, // other tests' denials must not crowd one's own out
		}
		return nil
	}, func(s *stack.Stack) { world = s }))
}
