package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// Maximum numbers of failed requests: those in progress at a killed checker, and those that wait
// for a hung checker.
const (
	killed  = 3
	stopped = streams * 8
)

func TestCheckerKilled(t *testing.T) {
	row := seen.Test(t, "kill a checker's process under load: first the one that the ingress uses, then the other one", "no request without a key is allowed; at most 3 requests fail")
	row.Measured(signalled(t, syscall.SIGKILL, killed))
}

func TestCheckerStopped(t *testing.T) {
	row := seen.Test(t, "stop a checker under load (SIGSTOP): first the one that the ingress uses, then the other one", "its liveness probe restarts it; no request without a key is allowed; only requests that wait for it fail")
	row.Measured(signalled(t, syscall.SIGSTOP, stopped))
}

func signalled(t *testing.T, signal syscall.Signal, allowed int) string {
	t.Helper()
	var all []string
	for _, used := range []bool{true, false} {
		s := stacktest.New(t, world)
		waitCheckers(t)
		l := begin(t, s)
		pod := busiest(t, used)
		before := restarts(t, pod)
		check.OK(t, syscall.Kill(processOf(t, pod), signal))
		began := time.Now()
		// Kubernetes increases the delay with each restart.
		until(t, 6*time.Minute, "restart the checker", func() bool { return restarts(t, pod) > before })
		restarted := time.Since(began).Round(100 * time.Millisecond)
		waitCheckers(t)
		all = append(all, fmt.Sprintf("%s, restart %v", l.end(t, fmt.Sprintf("%v, used by the ingress: %v", signal, used), allowed), restarted))
	}
	return strings.Join(all, "; other: ")
}

func checkers(t *testing.T) []core.Pod {
	t.Helper()
	list, err := stacktest.Kubernetes(t, world).CoreV1().Pods(manifest.Namespace).List(t.Context(), meta.ListOptions{LabelSelector: "sluice.dev/function=checker"})
	check.OK(t, err)
	return slices.DeleteFunc(list.Items, func(p core.Pod) bool { return p.DeletionTimestamp != nil })
}

func waitCheckers(t *testing.T) {
	t.Helper()
	until(t, 6*time.Minute, "have all checkers ready", func() bool {
		pods := checkers(t)
		return len(pods) >= 2 && !slices.ContainsFunc(pods, func(p core.Pod) bool { return !ready(p) })
	})
}

func ready(p core.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c core.PodCondition) bool { return c.Type == core.PodReady && c.Status == core.ConditionTrue })
}

func restarts(t *testing.T, pod core.Pod) int32 {
	t.Helper()
	for _, p := range checkers(t) {
		if p.Name == pod.Name && len(p.Status.ContainerStatuses) > 0 {
			return p.Status.ContainerStatuses[0].RestartCount
		}
	}
	return -1
}

// busiest returns the checker with the most or the fewest decisions. The ingress uses one
// checker per connection.
func busiest(t *testing.T, most bool) core.Pod {
	t.Helper()
	pods := checkers(t)
	count := func() []int {
		var counts []int
		for _, p := range pods {
			counts = append(counts, decisions(t, p))
		}
		return counts
	}
	var before, now []int
	before = count()
	until(t, time.Minute, "decide a hundred times", func() bool {
		now = count()
		total := 0
		for i := range now {
			total += now[i] - before[i]
		}
		return total > 100
	})
	best := 0
	for i := range now {
		if more := now[i]-before[i] > now[best]-before[best]; more == most {
			best = i
		}
	}
	return pods[best]
}

var decided = regexp.MustCompile(`(?m)^sluice_checker_decisions_total\{[^}]*\} ([0-9.e+]+)$`)

func decisions(t *testing.T, p core.Pod) int {
	t.Helper()
	total := 0.0
	for _, m := range decided.FindAllStringSubmatch(stacktest.Get(t, "http://"+p.Status.PodIP+":9090/metrics").Body, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		check.OK(t, err)
		total += n
	}
	return int(total)
}

// processOf finds the process by its environment.
func processOf(t *testing.T, pod core.Pod) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	check.OK(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || err != nil {
			continue
		}
		variables := bytes.Split(text, []byte{0})
		has := func(v string) bool {
			return slices.ContainsFunc(variables, func(b []byte) bool { return string(b) == v })
		}
		if has("POD_NAME="+pod.Name) && has("FUNCTION_TARGET=checker") {
			pid, err := strconv.Atoi(strings.Split(file, "/")[2])
			check.OK(t, err)
			return pid
		}
	}
	t.Skipf("%s runs on another machine", pod.Name)
	return 0
}

func until(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); !done(); <-tick.C {
		if time.Since(begin) > limit {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}
