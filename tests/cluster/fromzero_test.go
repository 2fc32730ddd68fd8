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

// rounds is how many times each function is woken: SLUICE_ROUNDS, for figures; two show that
// it works.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("SLUICE_ROUNDS")); err == nil {
		return n
	}
	return 2
}

// TestFromZero: functions that Knative has scaled to zero answer their first request, and a
// webhook call wakes the function that it needs. Knative is told to scale down within
// seconds, for as long as this test runs; how it scales up is not touched.
func TestFromZero(t *testing.T) {
	if !strings.Contains(string(read(t, values(t))), "runtime: knative") {
		t.Skip("the functions are not run by Knative")
	}
	row := seen.Test(t, "a request to each function that Knative has scaled to zero, and a webhook call that wakes webhook", "answered; the call deploys")
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
	const call = "webhook call, until the app runs the image"
	for n := range rounds() {
		asleep(t, append(slices.Collect(maps.Keys(calls)), "webhook"))
		for name, url := range calls {
			began := time.Now()
			if a := stacktest.Get(t, url); a.Status >= http.StatusInternalServerError {
				t.Errorf("%s woke with %d", name, a.Status)
			}
			took[name] = append(took[name], time.Since(began))
		}
		began := time.Now()
		image := fmt.Sprintf("registry.example/echo:wake%d", n)
		if a := s.Post(url, fmt.Appendf(nil, `{"image":%q}`, image), "X-Service-Token", token); a.Status != http.StatusAccepted {
			t.Errorf("webhook woke with %d %s", a.Status, a.Body)
		}
		took["webhook"] = append(took["webhook"], time.Since(began))
		s.Runs("hello", image)
		took[call] = append(took[call], time.Since(began))
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(took)) {
		all = append(all, tell(name, took[name]))
	}
	row.Measured(strings.Join(all, "; "))
}

// tell gives the middle and the 99th percentile.
func tell(what string, took []time.Duration) string {
	slices.Sort(took)
	at := func(p int) time.Duration { return took[(len(took)*p+99)/100-1].Round(time.Millisecond) }
	return fmt.Sprintf("%s p50 %v, p99 %v of %d", what, at(50), at(99), len(took))
}

// asleep waits until none of the functions has a pod.
func asleep(t *testing.T, functions []string) {
	t.Helper()
	selector := "sluice.dev/function in (" + strings.Join(functions, ",") + ")"
	until(t, 4*time.Minute, "let the functions sleep", func() bool {
		pods, err := stacktest.Kubernetes(t, world).CoreV1().Pods(manifest.Namespace).List(t.Context(), meta.ListOptions{LabelSelector: selector})
		return err == nil && len(pods.Items) == 0
	})
}

// hurry lets Knative look back six seconds instead of sixty, and undoes it.
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
