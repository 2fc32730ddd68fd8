package contract

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/tests/check"
)

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type ruleGroups struct {
	Groups []struct {
		Name  string  `json:"name"`
		Rules []alert `json:"rules"`
	} `json:"groups"`
}

func readRules(t *testing.T) ruleGroups {
	t.Helper()
	var file ruleGroups
	check.OK(t, yaml.Unmarshal(mustRead(t, filepath.Join(checkout, "infra", "chart", "monitoring", "rules.yaml")), &file))
	return file
}

// TestRunbook checks that every alert has a severity and a section in the runbook.
func TestRunbook(t *testing.T) {
	t.Parallel()
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(string(mustRead(t, filepath.Join(checkout, "infra", "monitoring", "runbook.md"))), -1) {
		sections["runbook.md#"+strings.ToLower(m[1])] = true
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if !sections[r.Annotations["runbook"]] {
				t.Errorf("%s: no section %q", r.Alert, r.Annotations["runbook"])
			}
			delete(sections, r.Annotations["runbook"])
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s has no summary or description", r.Alert)
			}
		}
	}
	for section := range sections {
		t.Errorf("%s: no alert for this section", section)
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool: scripts/prerequisites.sh installs Debian's package prometheus")
	}
	dir := t.TempDir()
	whole, bare := readRules(t), readRules(t)
	for _, g := range bare.Groups { // the tests do not check texts
		for i := range g.Rules {
			g.Rules[i].Annotations = nil
		}
	}
	for name, content := range map[string]any{"whole.yaml": whole, "rules.yaml": bare} {
		text, err := yaml.Marshal(content)
		check.OK(t, err)
		check.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	check.OK(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), mustRead(t, "testdata/alerts.yaml"), 0o600))
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", "whole.yaml"}, {"test", "rules", "alerts.yaml"}} {
		if err := command(t.Context(), dir, nil, tool, args...); err != nil {
			t.Error(err)
		}
	}
	tested := string(mustRead(t, "testdata/alerts.yaml"))
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if !strings.Contains(tested, "alertname: "+r.Alert+"\n") {
				t.Errorf("%s has no test in testdata/alerts.yaml", r.Alert)
			}
		}
	}
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	check.OK(t, err)
	return text
}
