package stack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/tests/check"
)

func TestPortTable(t *testing.T) {
	t.Parallel()
	o := Options{PortBase: 8080}
	got := []int{
		o.port(ingressPort), o.port(firestorePort), o.port(apiPort), o.port(etcdPort), o.port(etcdPeerPort), o.port(internalPort),
		o.port(checkerPort), o.port(metricsPort), o.port(workloadsPort), o.port(buildsPort), o.port(issuerPort),
	}
	want := []int{8080, 8081, 8082, 8083, 8084, 8085, 8086, 8087, 8088, 8089, 8090}
	check.Equal(t, "ports", want, got)
}

func TestPortBaseOutOfRange(t *testing.T) {
	t.Parallel()
	for _, base := range []int{-1, 0, 80, 65530, 70000} {
		if err := (Options{PortBase: base}).checkPorts(t.Context()); err == nil {
			t.Errorf("base %d: got no error, want one", base)
		}
	}
}

func TestCheckerCount(t *testing.T) {
	t.Parallel()
	for configured, want := range map[int]int{0: 2, 1: 1, 3: 3, 8: 8, -1: 0, 9: 0} {
		o, err := Options{Root: "../..", Checkers: configured}.complete()
		if (err != nil) != (want == 0) || (err == nil && o.Checkers != want) {
			t.Errorf("%d checkers: got %d, %v, want %d", configured, o.Checkers, err, want)
		}
	}
	hosts := map[string]bool{}
	for i := range 8 {
		for generation := range 2 {
			r := replica{i, generation}
			hosts[r.host()] = true
			if processOf(r.pod()) != r.process() {
				t.Errorf("pod %s: got process %q, want %q", r.pod(), processOf(r.pod()), r.process())
			}
		}
	}
	if len(hosts) != 16 || hosts[standinHost] || (replica{1, 2}).host() != (replica{1, 0}).host() || processOf(standinFunction) != "" {
		t.Errorf("addresses %v", hosts)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Parallel()
	for base, want := range map[int]string{0: "/r/.local", DefaultPortBase: "/r/.local", 8180: "/r/.local/8180"} {
		if got := DefaultDir("/r", base); got != want {
			t.Errorf("DefaultDir(%d): got %s, want %s", base, got, want)
		}
	}
}

// TestEnvironment checks that the user's cluster and credentials do not reach functions.
func TestEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/person/.kube/config")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/home/person/key.json")
	s := &Stack{
		o:         Options{Dir: "/stack", PortBase: 8080, Env: map[string]map[string]string{"keys": {"LOG_LEVEL": "debug", "EXTRA": "1"}}},
		addresses: map[string]string{},
	}
	keys, ok := find("keys")
	if !ok {
		t.Fatal("no function keys")
	}
	env := s.functionEnvironment(keys, "127.60.0.9", 8080, map[string]string{"OWN": "2"})
	for _, want := range []string{
		"HOST=127.60.0.9", "PORT=8080", "FUNCTION_TARGET=keys", "GOOGLE_CLOUD_PROJECT=sluice-local",
		"FIRESTORE_EMULATOR_HOST=127.0.0.1:8081", "SESSION_KEYS_DIR=/stack/secrets/session-public-keys",
		"LOG_LEVEL=debug", "EXTRA=1", "OWN=2", "SLUICE_STACK_DIR=/stack",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not set", want)
		}
	}
	for _, v := range env {
		if strings.HasPrefix(v, "KUBECONFIG=") || strings.HasPrefix(v, "GOOGLE_APPLICATION") {
			t.Errorf("keys has %s", v)
		}
	}
	apps, ok := find("apps")
	if !ok || !slices.Contains(s.functionEnvironment(apps, "h", 1, nil), "KUBECONFIG=/stack/secrets/accounts/apps/kubeconfig") {
		t.Error("apps does not use the kubeconfig of its service account")
	}
}

func find(name string) (function, bool) {
	for _, f := range functions() {
		if f.name == name {
			return f, true
		}
	}
	return function{}, false
}

func TestSessionKeys(t *testing.T) {
	t.Parallel()
	files, err := sessionKeys(time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC))
	check.OK(t, err)
	dir := t.TempDir()
	var names []string
	for name, text := range files {
		names = append(names, name)
		check.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	slices.Sort(names)
	check.Equal(t, "names", []string{"2026-11-21a.key", "2026-11-21a.pub"}, names)
	if _, err := identity.OpenKeyring(dir); err != nil {
		t.Error(err)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	info := Info{
		BaseURL: "http://localhost:8080", Admin: Admin{"admin", "secret"}, LogsDir: "/logs",
		Demo: &Demo{AppURL: "http://hello.shop-prod.localhost:8080", Key: "sluice_x_y"},
	}
	table := info.Table()
	for _, want := range []string{
		"http://localhost:8080/api/v1", "admin / secret", "http://hello.shop-prod.localhost:8080",
		"curl -i -H 'X-API-Key: sluice_x_y' http://hello.shop-prod.localhost:8080", "/logs",
		"echo secret | .local/sluice login http://localhost:8080 --username admin --password-stdin",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("got a table without %q:\n%s", want, table)
		}
	}
	if strings.Contains(table, "Console") {
		t.Errorf("got a console in the table, want none:\n%s", table)
	}
}
