// Package proxies_test checks the shipped configurations without running them. Package
// tests/proxies runs those of Debian's proxies.
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

// TestUnavailable checks that the proxies' own 503 has the body of the gate's 503.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	want := string(denial.New(problem.GateUnavailable).Body())
	for _, file := range []string{"nginx/gate.conf", "caddy/Caddyfile", "haproxy/gate.lua", "envoy/envoy.yaml"} {
		if text := read(t, file); !strings.Contains(text, want) {
			t.Errorf("%s does not contain %s", file, want)
		}
	}
}

// validator builds the program that validates Envoy's file, and returns its path.
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

// TestEnvoy validates Envoy's file, and checks that broken files are rejected.
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
				t.Fatalf("the file does not contain %q", tt.from)
			}
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			check.OK(t, os.WriteFile(file, []byte(strings.ReplaceAll(shipped, tt.from, tt.to)), 0o600))
			out, err := exec.CommandContext(t.Context(), program, file).CombinedOutput()
			if (err != nil) != tt.bad {
				t.Errorf("validate: got error %v, want an error: %v\n%s", err, tt.bad, out)
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
