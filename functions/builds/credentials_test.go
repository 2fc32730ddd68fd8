package builds

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

// infra/tekton/credentials.yaml is valid, Tekton uses each Secret in it, and runs have the
// account that holds them.
func TestCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", func(c *Config, _ *Parts) { c.ServiceAccount = "default" })
	check.OK(t, w.cluster.EnsureNamespace(t.Context(), w.ref.Namespace))
	text, err := os.ReadFile(filepath.Join("..", "..", "infra", "tekton", "credentials.yaml"))
	check.OK(t, err)
	objects, err := manifest.Decode(text)
	check.OK(t, err)
	for _, o := range objects {
		o.SetNamespace(w.ref.Namespace)
	}
	applier, err := manifest.NewApplier(clustertest.Config(t))
	check.OK(t, err)
	check.OK(t, applier.Apply(t.Context(), objects))
	account := w.accountOfRun()
	client, err := kubernetes.NewForConfig(clustertest.Config(t))
	check.OK(t, err)
	held, err := client.CoreV1().ServiceAccounts(w.ref.Namespace).Get(t.Context(), account, metav1.GetOptions{})
	check.OK(t, err)
	kinds := map[core.SecretType]string{core.SecretTypeBasicAuth: "tekton.dev/git-", core.SecretTypeSSHAuth: "tekton.dev/git-", core.SecretTypeDockerConfigJson: "tekton.dev/docker-"}
	for _, reference := range held.Secrets {
		s, err := client.CoreV1().Secrets(w.ref.Namespace).Get(t.Context(), reference.Name, metav1.GetOptions{})
		if err != nil {
			t.Errorf("a Secret of the account: %v", err)
			continue
		}
		if annotation := kinds[s.Type]; annotation == "" || s.Annotations[annotation+"0"] == "" {
			t.Errorf("%s: got type %q and annotations %v", s.Name, s.Type, s.Annotations)
		}
		delete(kinds, s.Type)
	}
	if len(kinds) > 0 || len(held.ImagePullSecrets) != 1 || held.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("account: got secrets %v and image pull secrets %v", held.Secrets, held.ImagePullSecrets)
	}
	if s, err := client.CoreV1().Secrets(w.ref.Namespace).Get(t.Context(), "registry", metav1.GetOptions{}); err != nil || s.Type != core.SecretTypeDockerConfigJson {
		t.Errorf("image pull secrets of apps: got %v, %v", s, err)
	}
}

func TestServiceAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", func(c *Config, _ *Parts) { c.ServiceAccount = "builder" })
	if got := w.accountOfRun(); got != "builder" {
		t.Errorf("account of the run: got %q", got)
	}
	cfg := Config{Token: token, ImagePrefix: "registry.example.com/built", Timeout: time.Minute, PerApp: 1, Workers: 1}
	for name, ok := range map[string]bool{"builder": true, "team.builder": true, "": false, "Builder": false, "-b": false, "a b": false, strings.Repeat("a", 254): false} {
		cfg.ServiceAccount = name
		if err := cfg.check(); (err == nil) != ok {
			t.Errorf("BUILD_SERVICE_ACCOUNT=%q: %v", name, err)
		}
	}
}

func (w *world) accountOfRun() string {
	w.Helper()
	n := w.ask("silent")
	if code := w.event(app.BuildRequested, w.ref.String()); code >= 300 {
		w.Fatalf("answered %d", code)
	}
	run, err := w.runs().Get(w.Context(), w.build(n).RunName(w.ref), metav1.GetOptions{})
	check.OK(w, err)
	account, _, err := unstructured.NestedString(run.Object, "spec", "taskRunTemplate", "serviceAccountName")
	check.OK(w, err)
	return account
}
