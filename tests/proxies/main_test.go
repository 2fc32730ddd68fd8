// Package proxies runs other proxies than the cluster's ingress with the configurations in
// infra/proxies, in front of an app and a running stack's checkers. All must fulfill the same
// contract.
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
