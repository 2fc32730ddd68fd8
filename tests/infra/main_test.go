// Package infra tests the manifests against a real API server with the real resource definitions.
// It also compares the rights in infra/chart with the audit log and the authorizer of a stack
// whose functions use their service accounts.
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

func adminConfig(t *testing.T) *rest.Config {
	t.Helper()
	return configOf(t, world.Info().Kubeconfig)
}

func configOf(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	check.OK(t, err)
	config.QPS, config.Burst = -1, 0 // no limit
	return config
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	check.OK(t, err)
	return client
}
