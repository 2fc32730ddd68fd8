// Package infra tests what installs Sluice in a cluster: every manifest is applied to a
// real API server with the real resource definitions, and over a stack of its own, on
// which each function runs with its service account's token, the rights in infra/chart
// are compared with what the functions were seen to do (by the API server's audit log)
// and with what the API server lets them do.
package infra

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// portBase is the first of the stack's ports.
const portBase = 14180

const (
	system   = "sluice-system"
	webhooks = "sluice-webhooks"
)

var world *stack.Stack

func TestMain(m *testing.M) {
	os.Exit(stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = portBase
		o.Race = long.Enabled()
		o.Env = map[string]map[string]string{
			"deploys": {"PROGRESS_DEADLINE": "15s"},
			"wiring":  {"REPROVE_EVERY": "5s"},
		}
		return nil
	}, func(s *stack.Stack) { world = s }))
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	check.OK(t, err)
	return dir
}

// adminConfig is of the stack's administrator.
func adminConfig(t *testing.T) *rest.Config {
	t.Helper()
	return configOf(t, world.Info().Kubeconfig)
}

func configOf(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	check.OK(t, err)
	config.QPS, config.Burst = -1, 0 // as fast as it goes
	return config
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	check.OK(t, err)
	return client
}
