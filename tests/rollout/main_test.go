// Package rollout updates, kills and hangs the checkers under load, and checks every response.
package rollout

import (
	"os"
	"testing"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// world is the stack of all tests, which are not parallel.
var world *stack.Stack

func TestMain(m *testing.M) {
	os.Exit(stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = 16080
		o.Race = long.Enabled()
		o.Env = map[string]map[string]string{"checker": {"CANARY_INTERVAL": "1s"}} // faster start
		return nil
	}, func(s *stack.Stack) { world = s }))
}
