// Package proxies runs proxies with the configurations in infra/proxies, in front of an app and
// the checkers of a running stack. Each proxy must fulfill the contract that the cluster's
// ingress fulfills.
package proxies

import (
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// ceiling is reduced from 90 seconds.
const ceiling = 10 * time.Second

var world *stack.Stack

func TestMain(m *testing.M) {
	os.Exit(stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = 22080
		o.Race = long.Enabled()
		o.Env = map[string]map[string]string{"checker": {"MAX_STALENESS": ceiling.String(), "CANARY_INTERVAL": "1s"}}
		return nil
	}, func(s *stack.Stack) { world = s }))
}
