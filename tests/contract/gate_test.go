package contract

import (
	"bytes"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
)

func find[T any](t *testing.T, rendering, kind, name string) T {
	t.Helper()
	all := rendered(t, rendering)
	i := slices.IndexFunc(all, func(o *object) bool { return o.GetKind() == kind && o.GetName() == name && !isKnative(o) })
	if i < 0 {
		t.Fatalf("%s has no %s %s", rendering, kind, name)
	}
	return as[T](t, all[i])
}

// TestCheckerPod checks that a stopped checker can write its last counts, and that a hanging one
// is killed within 7 seconds.
func TestCheckerPod(t *testing.T) {
	t.Parallel()
	const drain, flush, kill = 20, 20, 1 // seconds; the kubelet waits at least one
	for name := range renderings {
		pod := find[apps.Deployment](t, name, "Deployment", "sluice-checker").Spec.Template.Spec
		c := pod.Containers[0]
		if pause := c.Lifecycle.PreStop.Sleep.Seconds; pause < 5 || *pod.TerminationGracePeriodSeconds < max(50, pause+drain+flush) {
			t.Errorf("%s: got a pause of %d s and a grace period of %d s, want at least 5 and 50", name, pause, *pod.TerminationGracePeriodSeconds)
		}
		for what, probe := range map[string]*core.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			if get := probe.HTTPGet; get.Path != what || get.Scheme != "HTTPS" || get.Port.StrVal != "https" || probe.TimeoutSeconds < 1 {
				t.Errorf("%s: probe %s: %+v", name, what, probe)
			}
		}
		live := c.LivenessProbe
		hangs := live.PeriodSeconds*live.FailureThreshold + live.TimeoutSeconds + kill
		if live.TerminationGracePeriodSeconds != nil {
			hangs += int32(*live.TerminationGracePeriodSeconds)
		} else {
			hangs += int32(*pod.TerminationGracePeriodSeconds)
		}
		if limit := 7 * time.Second; live.FailureThreshold < 3 || time.Duration(hangs)*time.Second > limit {
			t.Errorf("%s: a hanging checker is killed after %d s, want at most %v", name, hangs, limit)
		}
	}
}

func TestCheckerReplicas(t *testing.T) {
	t.Parallel()
	for name := range renderings {
		d := find[apps.Deployment](t, name, "Deployment", "sluice-checker").Spec
		if r := d.Strategy.RollingUpdate; *d.Replicas != 2 || r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.IntValue() != 1 {
			t.Errorf("%s: got %d replicas and strategy %+v, want 2 replicas with maxUnavailable 0 and maxSurge 1", name, *d.Replicas, r)
		}
		budget := find[policy.PodDisruptionBudget](t, name, "PodDisruptionBudget", "sluice-checker").Spec
		if budget.MinAvailable.IntValue() != 1 || !maps.Equal(budget.Selector.MatchLabels, d.Selector.MatchLabels) {
			t.Errorf("%s: got minAvailable %v of %v, want 1", name, budget.MinAvailable, budget.Selector)
		}
	}
}

func TestGateServices(t *testing.T) {
	t.Parallel()
	for name := range renderings {
		for service, want := range map[string][]string{"sluice-checker": {"checker", "standin"}, "sluice-checker-replicas": {"checker"}} {
			s := find[core.Service](t, name, "Service", service)
			var got []string
			for function, pod := range pods(t, name) {
				if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
					got = append(got, function)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) || s.Spec.PublishNotReadyAddresses {
				t.Errorf("%s: %s: got pods %v (unready ones: %t), want %v", name, service, got, s.Spec.PublishNotReadyAddresses, want)
			}
		}
	}
}

// TestAddresses checks that a Service listens at each function's address. Knative's gateway
// listens on port 80.
func TestAddresses(t *testing.T) {
	t.Parallel()
	address := regexp.MustCompile(`(https?)://([a-z-]+)\.sluice-system\.svc(?:\.cluster\.local)?(?::(\d+))?["/\s]`)
	for name := range renderings {
		var text []byte
		listens := map[string]bool{}
		for _, o := range rendered(t, name) {
			one, err := o.MarshalJSON()
			check.OK(t, err)
			text = append(text, one...)
			switch {
			case isKnative(o):
				listens[o.GetName()+":80"] = true
			case o.GetKind() == "Service":
				for _, p := range as[core.Service](t, o).Spec.Ports {
					listens[o.GetName()+":"+strconv.Itoa(int(p.Port))] = true
				}
			}
		}
		found := address.FindAllSubmatch(text, -1)
		for _, m := range found {
			port := string(m[3])
			if port == "" {
				port = map[string]string{"http": "80", "https": "443"}[string(m[1])]
			}
			if !listens[string(m[2])+":"+port] {
				t.Errorf("%s: no Service listens at %s", name, bytes.TrimSpace(m[0]))
			}
		}
		if len(found) < 8 {
			t.Errorf("%s: got %d addresses, want at least 8", name, len(found))
		}
	}
}

// TestMetricsPolicies checks that only the namespace "monitoring" can reach private ports.
func TestMetricsPolicies(t *testing.T) {
	t.Parallel()
	ports := map[string]bool{}
	for _, name := range []string{"knative", "plain"} {
		for function, pod := range pods(t, name) {
			own, _ := environment(t, name, pod)
			open, port := false, own["METRICS_PORT"]
			ports[port] = true
			for _, rule := range ingressOf(t, name, pod) {
				if !slices.ContainsFunc(rule.Ports, func(p networking.NetworkPolicyPort) bool { return p.Port.String() == port }) {
					continue
				}
				if open = onlyMonitoring(rule); !open {
					t.Errorf("%s: metrics of %s are open to others: %+v", name, function, rule.From)
				}
			}
			if !open {
				t.Errorf("%s: the metrics of %s are not reachable", name, function)
			}
		}
	}
	for _, file := range []string{"chart/templates/monitoring.yaml", "monitoring/scrape.yaml"} {
		asked := map[string]bool{}
		for _, m := range regexp.MustCompile(`replacement: \$1:(\d+)`).FindAllSubmatch(mustRead(t, filepath.Join(checkout, "infra", file)), -1) {
			asked[string(m[1])] = true
		}
		if !maps.Equal(asked, ports) {
			t.Errorf("ports in %s: got %v, want %v", file, asked, ports)
		}
	}
}

// ingressOf returns the ingress rules of all policies that select a pod.
func ingressOf(t *testing.T, name string, pod core.PodTemplateSpec) []networking.NetworkPolicyIngressRule {
	t.Helper()
	var rules []networking.NetworkPolicyIngressRule
	for _, o := range manifest.OfKinds(rendered(t, name), "NetworkPolicy") {
		spec := as[networking.NetworkPolicy](t, o).Spec
		selector, err := meta.LabelSelectorAsSelector(&spec.PodSelector)
		check.OK(t, err)
		if selector.Matches(labels.Set(pod.Labels)) {
			rules = append(rules, spec.Ingress...)
		}
	}
	return rules
}

func onlyMonitoring(rule networking.NetworkPolicyIngressRule) bool {
	return len(rule.From) == 1 && rule.From[0].NamespaceSelector != nil && rule.From[0].PodSelector == nil && rule.From[0].IPBlock == nil &&
		maps.Equal(rule.From[0].NamespaceSelector.MatchLabels, map[string]string{"kubernetes.io/metadata.name": "monitoring"})
}
