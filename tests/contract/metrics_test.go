package contract

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

// foreign are metrics of kube-state-metrics, and metrics from /proc, which the root directory
// lacks.
var foreign = []string{"kube_pod_container_status_restarts_total", "process_resident_memory_bytes", "process_cpu_seconds_total"}

func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			all["alert "+r.Alert] = r.Expr
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				RefID string `json:"refId"`
				Expr  string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	check.OK(t, json.Unmarshal(mustRead(t, filepath.Join(checkout, "infra", "chart", "monitoring", "dashboard.json")), &dashboard))
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all["panel "+p.Title+" "+target.RefID] = target.Expr
		}
	}
	if len(all) < 30 {
		t.Fatalf("got %d expressions, want at least 30", len(all))
	}
	return all
}

func TestMetricsExist(t *testing.T) {
	t.Parallel()
	exported := slices.Clone(foreign)
	for _, function := range functions() {
		exported = append(exported, exportedBy(t, function)...)
	}
	name := regexp.MustCompile(`\b(sluice|kube|process|go)_[a-z_]+\b`)
	for place, expr := range expressions(t) {
		expr = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, "")
		found := name.FindAllString(expr, -1)
		if len(found) == 0 {
			t.Errorf("%s: no metric in %s", place, expr)
		}
		for _, metric := range found {
			if !slices.Contains(exported, metric) {
				t.Errorf("%s: no function exports %s", place, metric)
			}
		}
	}
}

// exportedBy returns a function's metrics, including those without a sample.
func exportedBy(t *testing.T, function string) []string {
	t.Helper()
	s := settings(t, function)
	s["METRICS_PORT"] = freePort(t)
	p := launch(t, function, s).ready(t)
	p.asks(t, function)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", s["METRICS_PORT"])+"/metrics", nil)
	check.OK(t, err)
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatalf("metrics of %s: %v", function, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	check.OK(t, err)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
		if m[2] == "histogram" {
			names = append(names, m[1]+"_bucket", m[1]+"_count", m[1]+"_sum")
		}
	}
	return names
}
