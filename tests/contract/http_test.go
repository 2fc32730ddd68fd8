package contract

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

// first is the first request to a function and its status for an unauthenticated client.
type first struct {
	call
	status int
}

const (
	project     = "/api/v1/projects/shop"
	application = project + "/environments/prod/apps/hello"
)

// firsts contains the timer's event for functions without an API.
func firsts() map[string]first {
	get := func(path string) first {
		return first{call{method: http.MethodGet, path: path}, http.StatusUnauthorized}
	}
	tick := first{event("dev.knative.sources.ping", "{}"), http.StatusOK}
	return map[string]first{
		"session": get("/api/v1/session"),
		"keys":    get(project + "/api-keys"),
		"usage":   get(project + "/api-keys/key-ab12cd34/usage"),
		"apps":    get(project),
		"deploys": get(application + "/deployments"),
		"builds":  get(application + "/builds"),
		"console": {call{method: http.MethodGet, path: "/console"}, http.StatusSeeOther},
		"webhook": {call{
			method: http.MethodPost, path: "/api/v1/webhook/shop-prod/hello", body: `{"image":"registry.example/a:v1"}`,
			header: map[string]string{"Content-Type": "application/json", "X-Service-Token": "wrong"},
		}, http.StatusUnauthorized},
		"rollup": tick,
		"wiring": tick,
		"checker": {call{
			method: http.MethodGet, path: "/check/shop-prod/hello", header: map[string]string{"X-Forwarded-Method": "GET"},
		}, http.StatusUnauthorized},
		"standin": {call{method: http.MethodGet, path: "/check/shop-prod/hello"}, http.StatusServiceUnavailable},
	}
}

func firstOf(t *testing.T, function string) first {
	t.Helper()
	f, ok := firsts()[function]
	if !ok {
		t.Fatalf("no first request to %s: add it to firsts", function)
	}
	return f
}

// asks sends the first request to a function. The checker returns 503 until its view is proven.
func (p *process) asks(t *testing.T, function string) {
	t.Helper()
	f := firstOf(t, function)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for begin := time.Now(); ; <-again.C {
		status, body := p.do(t, f.call)
		if status == f.status {
			return
		}
		if function != "checker" || status != http.StatusServiceUnavailable || time.Since(begin) > limit {
			t.Fatalf("%s: %s %s: got %d %s, want %d", function, f.method, f.path, status, body, f.status)
		}
	}
}

// TestAnswers starts every function from its image, sends it concurrent requests, and stops it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, function := range functions() {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			s := settings(t, function)
			s["PORT"] = freePort(t)
			p := launch(t, function, s).ready(t)
			if !strings.HasSuffix(p.url, ":"+s["PORT"]) {
				t.Errorf("address: got %s, want port %s", p.url, s["PORT"])
			}
			p.asks(t, function)
			f := firstOf(t, function)
			var group sync.WaitGroup
			for range 16 {
				group.Go(func() {
					if status, body := p.do(t, f.call); status != f.status {
						t.Errorf("concurrent request: got %d %s, want %d", status, body, f.status)
					}
				})
			}
			group.Wait()
			check.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
			if code := p.end(t); code != 0 {
				t.Errorf("exit code after SIGTERM: got %d, want 0", code)
			}
			for line := range strings.Lines(p.log()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("a line of the log is not JSON: %s", line)
				}
			}
		})
	}
}

// TestFramework runs the functions in the functions framework's own server. The checker and the
// stand-in need their own processes.
func TestFramework(t *testing.T) {
	t.Parallel()
	for _, function := range functions() {
		if function == "checker" || function == "standin" {
			continue
		}
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			s := shipped[function].outside(settings(t, function))
			s["PORT"], s["FUNCTION_TARGET"] = freePort(t), function
			cmd := exec.CommandContext(context.WithoutCancel(t.Context()), programs.hosted)
			cmd.Env = variables(s)
			follow(t, cmd).ready(t).asks(t, function)
		})
	}
}

// TestHealth checks that health probes succeed without a store.
func TestHealth(t *testing.T) {
	t.Parallel()
	for _, function := range functions() {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			s := settings(t, function)
			s["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:9"
			p := launch(t, function, s).ready(t)
			paths := []string{"/healthz", "/_/health", "/_/ready"}
			if notInOpenFaaS[function] != "" {
				paths = paths[:1]
			}
			for _, path := range paths {
				if status, body := p.do(t, call{method: http.MethodGet, path: path}); status != http.StatusOK || body != "" {
					t.Errorf("%s: got %d %q, want %d without a body", path, status, body, http.StatusOK)
				}
			}
		})
	}
}

// TestTarget checks that $FUNCTION_TARGET is optional and must name the function.
func TestTarget(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		env  map[string]string
		ok   bool
	}{
		{"named", map[string]string{"FUNCTION_TARGET": "keys"}, true},
		{"left out", map[string]string{"FUNCTION_TARGET": ""}, true},
		{"another", map[string]string{"FUNCTION_TARGET": "usage"}, false},
		{"Knative's", map[string]string{"K_SERVICE": "keys", "K_REVISION": "keys-00001", "K_CONFIGURATION": "keys", "FUNCTION_SIGNATURE_TYPE": "http"}, true},
		{"no port", map[string]string{"PORT": "http"}, false},
		{"no such level", map[string]string{"LOG_LEVEL": "loud"}, false},
		{"no project", map[string]string{"GOOGLE_CLOUD_PROJECT": ""}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := settings(t, "keys")
			maps.Copy(s, test.env)
			p := launch(t, "keys", s)
			if test.ok {
				p.ready(t).asks(t, "keys")
				return
			}
			if code := p.end(t); code == 0 || !strings.Contains(p.log(), `"msg":"function failed","function":"keys","error":"`) {
				t.Errorf("got exit code %d and log %q, want a failure", code, p.log())
			}
		})
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer func() { _ = l.Close() }()
	s := settings(t, "usage")
	_, s["PORT"], _ = net.SplitHostPort(l.Addr().String())
	p := launch(t, "usage", s)
	if code := p.end(t); code == 0 || !strings.Contains(p.log(), "address already in use") {
		t.Errorf("got exit code %d and log %q, want a failure", code, p.log())
	}
}

// freePort returns a port below the range of outgoing connections.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(3000 + rand.IntN(5000))
		var lc net.ListenConfig
		if l, err := lc.Listen(t.Context(), "tcp", ":"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}
