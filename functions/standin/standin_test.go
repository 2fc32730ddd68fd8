package standin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

type checker struct {
	*httptest.Server
	ready atomic.Bool
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	c := &checker{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || !c.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	c.EnableHTTP2 = true
	c.StartTLS()
	t.Cleanup(c.Close)
	c.ready.Store(true)
	return c
}

func run(t *testing.T, url string) *Standin {
	t.Helper()
	s, err := New(Config{CheckersURL: url, TLSDir: t.TempDir(), Interval: 10 * time.Millisecond, Limit: 5 * time.Second}, functest.Quiet())
	check.OK(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, s *Standin, path string) functest.Answer {
	t.Helper()
	return functest.Call{Method: http.MethodGet, Path: path}.Send(t, s)
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	check.Eventually(t, what, 30*time.Second, func() error {
		if !done() {
			return errors.New("not yet")
		}
		return nil
	})
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	s := run(t, c.URL)
	ready := func() bool { return get(t, s, "/readyz").Status == http.StatusOK }
	if ready() {
		t.Error("ready before the first probe")
	}
	c.ready.Store(false)
	eventually(t, "become ready when no checker is reachable", ready)
	c.ready.Store(true)
	eventually(t, "become unready when a checker is reachable", func() bool { return !ready() })
	c.CloseClientConnections()
	c.Close()
	eventually(t, "become ready when all checkers are down", ready)
	get(t, s, "/healthz").Is(http.StatusOK)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	s := run(t, c.URL)
	const body = `{"code":"gate_unavailable","message":"API keys cannot be verified at the moment. Retry after the time in Retry-After."}`
	for _, path := range []string{"/check/shop-prod/hello", "/check/", "/", "/readyz/", "/healthz/x"} {
		a := get(t, s, path).Is(http.StatusServiceUnavailable)
		want := http.Header{
			"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}, "Retry-After": {"10"}, "Cache-Control": {"no-store"}, "Vary": {"Origin"},
			"Access-Control-Allow-Origin": {"*"}, "Access-Control-Expose-Headers": {"Retry-After"},
			"Connection": {"close"}, // a checker is reachable
		}
		check.Equal(t, path+": headers", want, a.Header)
		check.Equal(t, path+": body", body, string(a.Body))
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	s := run(t, c.URL)
	ask := func(path string, header http.Header) functest.Answer {
		return functest.Call{Method: http.MethodGet, Path: path, Header: header}.Send(t, s)
	}
	asks := []string{"GET"}
	a := ask("/check/shop-prod/hello", http.Header{"X-Forwarded-Method": {"OPTIONS"}, "Access-Control-Request-Method": asks})
	want := http.Header{"Connection": {"close"}}
	check.Equal(t, "headers", want, a.Is(http.StatusOK).Header)
	check.Equal(t, "body", "", string(a.Body))
	for name, header := range map[string]http.Header{
		"only OPTIONS":          {"X-Forwarded-Method": {"OPTIONS"}},
		"another method":        {"X-Forwarded-Method": {"GET"}, "Access-Control-Request-Method": asks},
		"two methods":           {"X-Forwarded-Method": {"OPTIONS", "OPTIONS"}, "Access-Control-Request-Method": asks},
		"in lower case":         {"X-Forwarded-Method": {"options"}, "Access-Control-Request-Method": asks},
		"no method":             {"Access-Control-Request-Method": asks},
		"no method, with a URI": {"X-Forwarded-Uri": {"/"}},
		"a key":                 {"X-Forwarded-Method": {"GET"}, "X-Api-Key": {"sluice_00000000_00000000000000000000000000000000000000"}},
	} {
		if a := ask("/check/shop-prod/hello", header); a.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", name, a.Status)
		}
	}
	ask("/", http.Header{"X-Forwarded-Method": {"OPTIONS"}, "Access-Control-Request-Method": asks}).Is(http.StatusServiceUnavailable)
}

// TestConnectionsAreClosed tests that one response a second closes its connection while no checker is
// reachable.
func TestConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	c.ready.Store(false)
	s := run(t, c.URL)
	eventually(t, "become ready", s.watch.alone.Load)
	now := time.Now()
	var closed []bool
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 999 * time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Second} {
		s.now = func() time.Time { return now.Add(time.Second + after) }
		closed = append(closed, get(t, s, "/check/shop-prod/hello").Header.Get("Connection") == "close")
	}
	check.Equal(t, "closed connections", []bool{true, false, false, true, false, true}, closed)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{CheckersURL: "https://checkers:8443", TLSDir: "/tls", Interval: time.Second, Limit: time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"plain HTTP":  func(c *Config) { c.CheckersURL = "http://checkers:8443" },
		"a path":      func(c *Config) { c.CheckersURL += "/readyz" },
		"no host":     func(c *Config) { c.CheckersURL = "https://" },
		"no interval": func(c *Config) { c.Interval = 0 },
		"no limit":    func(c *Config) { c.Limit = 0 },
	} {
		bad := good
		change(&bad)
		if bad.Check() == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, err := New(Config{CheckersURL: "https://checkers:8443", TLSDir: t.TempDir(), Interval: time.Second, Limit: time.Second}, functest.Quiet())
	check.OK(t, err)
	if _, err := s.TLSConfig(); err == nil {
		t.Error("TLSConfig without a certificate: got no error")
	}
}
