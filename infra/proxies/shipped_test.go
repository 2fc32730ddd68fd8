// Package proxies_test looks at the shipped configurations without running them; those
// of Debian's proxies are run in tests/proxies.
package proxies_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

// TestUnavailable: what proxies answer by themselves is what the gate would answer.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	want := string(denial.New(problem.GateUnavailable).Body())
	for _, file := range []string{"nginx/gate.conf", "caddy/Caddyfile", "haproxy/gate.lua", "envoy/envoy.yaml"} {
		if text := read(t, file); !strings.Contains(text, want) {
			t.Errorf("%s does not say %s", file, want)
		}
	}
}

// validator builds the program that knows Envoy's types, which is a module of its own.
func validator(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "validate")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-mod=readonly", "-o", program, ".")
	cmd.Dir = "envoy/validate"
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the validator: %v\n%s", err, out)
	}
	return program
}

// TestEnvoy holds Envoy's file to Envoy's own types and rules, and shows that the check
// can fail.
func TestEnvoy(t *testing.T) {
	t.Parallel()
	program, shipped := validator(t), read(t, "envoy/envoy.yaml")
	for _, tt := range []struct {
		name, from, to string
		bad            bool
	}{
		{name: "as shipped"},
		{name: "unknown field", from: "failure_mode_allow:", to: "failure_mode_alow:", bad: true},
		{name: "unknown type", from: "filters.http.router.v3.Router", to: "filters.http.router.v3.Ruter", bad: true},
		{name: "unknown status", from: "{code: ServiceUnavailable}", to: "{code: GateUnavailable}", bad: true},
		{name: "broken rule inside of typed_config", from: "flags: [UAEX]", to: "flags: [NOFLAG]", bad: true},
		{name: "broken rule outside", from: "port_value: 80}", to: "port_value: 80000}", bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(shipped, tt.from) {
				t.Fatalf("the file does not hold %q", tt.from)
			}
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			check.OK(t, os.WriteFile(file, []byte(strings.ReplaceAll(shipped, tt.from, tt.to)), 0o600))
			out, err := exec.CommandContext(t.Context(), program, file).CombinedOutput()
			if (err != nil) != tt.bad {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	check.OK(t, err)
	return string(b)
}
