package cluster

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestUninstall also installs Sluice again over the same store, with the other runtime and then
// with the first.
func TestUninstall(t *testing.T) {
	row := seen.Test(t, "`helm uninstall`, and `helm install` over the same store, with the other runtime and then with the first",
		"only the objects in the guide remain; apps, keys, history and sign-in still work")
	var took []string
	s := stacktest.New(t, world)
	s.GatedApp("kept")
	key := s.AnyKey()
	s.Opens("kept", key)
	file := values(t)
	runtime := "knative"
	if strings.Contains(string(read(t, file)), "runtime: plain") {
		runtime = "plain"
	}
	other := map[string]string{"knative": "plain", "plain": "knative"}[runtime]
	for _, next := range []string{other, runtime} {
		helm(t, "uninstall", "sluice", "--wait", "--timeout", "4m")
		left(t)
		var events []string
		began := time.Now()
		helm(t, "install", "sluice", chart, "--values", file, "--set", "runtime="+next)
		for _, want := range []struct {
			status int
			call   *stacktest.Call
		}{{http.StatusUnauthorized, s.Call("kept")}, {http.StatusOK, s.Call("kept").Key(key)}} {
			until(t, 4*time.Minute, "serve again", func() bool {
				a, err := want.call.Try(t.Context())
				return err == nil && a.Status == want.status
			})
			events = append(events, fmt.Sprintf("%d after %v", want.status, time.Since(began).Round(100*time.Millisecond)))
		}
		waitAPI(t)
		events = append(events, fmt.Sprintf("API after %v", time.Since(began).Round(100*time.Millisecond)))
		took = append(took, next+": "+strings.Join(events, ", "))
		waitCheckers(t)
		s.WaitGate("kept", "engaged")
		if n := len(s.History("kept")); n != 1 {
			t.Errorf("runtime %s: got %d revisions of the app, want 1", next, n)
		}
	}
	row.Measured(strings.Join(took, "; "))
}

// waitAPI uses a client that does not check responses against the API description: the first ones
// come from the ingress.
func waitAPI(t *testing.T) {
	t.Helper()
	bare := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	at := world.Info().BaseURL + "/api/v1/"
	for _, path := range []string{
		"session", "projects", "projects/p/environments/e/plans", "projects/p/api-keys/k/usage",
		"projects/p/environments/e/apps/a/deployments", "projects/p/environments/e/apps/a/builds",
	} {
		until(t, 4*time.Minute, "respond at "+path, func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, http.NoBody)
			check.OK(t, err)
			res, err := bare.Do(req)
			return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusUnauthorized
		})
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	check.OK(t, err)
	return text
}

// left checks that the uninstall guide lists all objects that remain.
func left(t *testing.T) {
	t.Helper()
	api := stacktest.Kubernetes(t, world)
	until(t, 3*time.Minute, "end all pods", func() bool {
		pods, err := api.CoreV1().Pods(manifest.Namespace).List(t.Context(), meta.ListOptions{LabelSelector: "app.kubernetes.io/part-of=sluice,sluice.dev/function!=test"})
		return err == nil && len(pods.Items) == 0
	})
	kept := map[string]bool{
		"sluice-session-keys": true, "sluice-session-public-keys": true, "sluice-builds-token": true, "sluice-console-token": true, "sluice-admin": true,
		"sluice-checker-tls": true, "sluice-checker-tls-ca": true,
	}
	secrets, err := api.CoreV1().Secrets(manifest.Namespace).List(t.Context(), meta.ListOptions{})
	check.OK(t, err)
	for _, s := range secrets.Items {
		if !kept[s.Name] {
			t.Errorf("got Secret %s after the uninstall, which the guide does not list", s.Name)
		}
		delete(kept, s.Name)
	}
	for name := range kept {
		t.Errorf("Secret %s is missing after the uninstall", name)
	}
	if _, err := api.CoreV1().Namespaces().Get(t.Context(), "sluice-webhooks", meta.GetOptions{}); err != nil {
		t.Errorf("read the namespace of webhook tokens after the uninstall: %v", err)
	}
	if _, err := api.RbacV1().ClusterRoles().Get(t.Context(), "sluice-apps", meta.GetOptions{}); !kerrors.IsNotFound(err) {
		t.Errorf("got ClusterRole sluice-apps after the uninstall, %v, want it deleted", err)
	}
}
