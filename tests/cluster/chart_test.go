package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

var (
	root  = filepath.Join("..", "..")
	chart = filepath.Join(root, "infra", "chart")
)

func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := manifest.RunHelm(t.Context(), root, append(args, "--namespace", manifest.Namespace, "--kubeconfig", world.Info().Kubeconfig)...)
	check.OK(t, err)
	return string(out)
}

func values(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	check.OK(t, os.WriteFile(file, []byte(helm(t, "get", "values", "sluice", "--output", "yaml")), 0o600))
	return file
}

func TestHelmTest(t *testing.T) {
	row := seen.Test(t, "`helm test`", "gates a test app: 401 without a key, 200 with one")
	began := time.Now()
	if out := helm(t, "test", "sluice", "--logs", "--timeout", "4m"); !strings.Contains(out, "401 without a key, 200 with one") {
		t.Errorf("helm test: %s", out)
	}
	row.Measured(time.Since(began).Round(100 * time.Millisecond).String())
}

func TestUpgrade(t *testing.T) {
	row := seen.Test(t, "`helm upgrade` with a new setting, which replaces every pod, and `helm rollback`, under load", "no request fails or is wrongly allowed")
	s := stacktest.New(t, world)
	file := values(t)
	waitCheckers(t)
	l := begin(t, s)
	for _, step := range [][]string{{"upgrade", "sluice", chart, "--values", file, "--set", "settings.UPGRADED=1"}, {"rollback", "sluice"}} {
		was := generation(t)
		helm(t, step...)
		until(t, 4*time.Minute, "replace the checkers", func() bool {
			d, err := stacktest.Kubernetes(t, world).AppsV1().Deployments(manifest.Namespace).Get(t.Context(), "sluice-checker", meta.GetOptions{})
			check.OK(t, err)
			n := *d.Spec.Replicas
			return d.Status.ObservedGeneration > was && d.Status.UpdatedReplicas == n && d.Status.ReadyReplicas == n && d.Status.Replicas == n
		})
		waitGone(t)
	}
	row.Measured(l.end(t, "upgrade and rollback", 0))
}

func generation(t *testing.T) int64 {
	t.Helper()
	d, err := stacktest.Kubernetes(t, world).AppsV1().Deployments(manifest.Namespace).Get(t.Context(), "sluice-checker", meta.GetOptions{})
	check.OK(t, err)
	return d.Status.ObservedGeneration
}

func waitGone(t *testing.T) {
	t.Helper()
	until(t, 2*time.Minute, "end the old checkers", func() bool {
		list, err := stacktest.Kubernetes(t, world).CoreV1().Pods(manifest.Namespace).List(t.Context(), meta.ListOptions{LabelSelector: "sluice.dev/function=checker"})
		check.OK(t, err)
		return len(list.Items) == len(checkers(t))
	})
}
