package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// rounds returns the number of measurements: SLUICE_ROUNDS, or 2.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("SLUICE_ROUNDS")); err == nil {
		return n
	}
	return 2
}

// TestFromZero reconfigures Knative to scale down within seconds. It does not affect scaling up.
func TestFromZero(t *testing.T) {
	if !strings.Contains(string(read(t, values(t))), "runtime: knative") {
		t.Skip("Knative does not run the functions")
	}
	row := seen.Test(t, "call each function that Knative has scaled to zero, and the webhook", "each responds; the webhook call deploys")
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	hurry(t)
	base := world.Info().BaseURL
	at := base + "/api/v1/projects/" + s.Project
	calls := map[string]string{
		"apps": at + "/environments/prod/apps", "keys": at + "/environments/prod/plans", "usage": at + "/api-keys/none/usage",
		"session": base + "/api/v1/session", "console": base + "/console",
	}
	took := map[string][]time.Duration{}
	const call = "webhook-deployment"
	for n := range rounds() {
		asleep(t, append(slices.Collect(maps.Keys(calls)), "webhook"))
		for name, url := range calls {
			began := time.Now()
			if a := stacktest.Get(t, url); a.Status >= http.StatusInternalServerError {
				t.Errorf("%s: got %d, want a response below 500", name, a.Status)
			}
			took[name] = append(took[name], time.Since(began))
		}
		began := time.Now()
		image := fmt.Sprintf("registry.example/echo:wake%d", n)
		if a := s.Post(url, fmt.Appendf(nil, `{"image":%q}`, image), "X-Service-Token", token); a.Status != http.StatusAccepted {
			t.Errorf("webhook: got %d %s, want 202", a.Status, a.Body)
		}
		took["webhook"] = append(took["webhook"], time.Since(began))
		s.Runs("hello", image)
		took[call] = append(took[call], time.Since(began))
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(took)) {
		all = append(all, percentiles(name, took[name]))
	}
	row.Measured(fmt.Sprintf("p50/p99 of %d rounds: %s", rounds(), strings.Join(all, ", ")))
}

func percentiles(what string, took []time.Duration) string {
	slices.Sort(took)
	at := func(p int) time.Duration { return took[(len(took)*p+99)/100-1].Round(time.Millisecond) }
	return fmt.Sprintf("%s %v/%v", what, at(50), at(99))
}

func asleep(t *testing.T, functions []string) {
	t.Helper()
	selector := "sluice.dev/function in (" + strings.Join(functions, ",") + ")"
	until(t, 4*time.Minute, "scale the functions to zero", func() bool {
		pods, err := stacktest.Kubernetes(t, world).CoreV1().Pods(manifest.Namespace).List(t.Context(), meta.ListOptions{LabelSelector: selector})
		return err == nil && len(pods.Items) == 0
	})
}

// hurry reduces Knative's stable window from 60 s to 6 s.
func hurry(t *testing.T) {
	t.Helper()
	maps := stacktest.Kubernetes(t, world).CoreV1().ConfigMaps("knative-serving")
	patch := func(text string) {
		_, err := maps.Patch(context.WithoutCancel(t.Context()), "config-autoscaler", types.MergePatchType, []byte(text), meta.PatchOptions{})
		check.OK(t, err)
	}
	patch(`{"data":{"stable-window":"6s","scale-to-zero-grace-period":"1s"}}`)
	t.Cleanup(func() { patch(`{"data":{"stable-window":null,"scale-to-zero-grace-period":null}}`) })
}
