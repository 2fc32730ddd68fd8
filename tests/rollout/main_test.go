// Package rollout takes the checkers away under load, one by one as an update does and
// all at once as an accident does, and looks at every answer that clients get.
package rollout

import (
	"os"
	"testing"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// world is the stack that all tests here share; they take turns.
var world *stack.Stack

func TestMain(m *testing.M) {
	os.Exit(stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = 16080
		o.Race = long.Enabled()
		o.Env = map[string]map[string]string{"checker": {"CANARY_INTERVAL": "1s"}} // ready soon
		return nil
	}, func(s *stack.Stack) { world = s }))
}
