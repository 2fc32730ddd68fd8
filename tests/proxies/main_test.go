// Package proxies runs other proxies than the cluster's ingress, each with the
// configuration that infra/proxies ships, in front of a real app and over the checkers
// of a running stack: every proxy is held to the same table of requests.
package proxies

import (
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// ceiling is how old a checker's view may be here; 90 seconds by default.
const ceiling = 10 * time.Second

// world is the stack that all tests here share; they take turns.
var world *stack.Stack

func TestMain(m *testing.M) {
	os.Exit(stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = 22080
		o.Race = long.Enabled()
		o.Env = map[string]map[string]string{"checker": {"MAX_STALENESS": ceiling.String(), "CANARY_INTERVAL": "1s"}}
		return nil
	}, func(s *stack.Stack) { world = s }))
}
