package proxies

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// lossy is a checker that closes the connections of checks with a key, and denies others.
type lossy struct {
	net.Listener

	received atomic.Int64 // checks with a key
	drops    atomic.Int64 // connections to close before the TLS handshake
}

type connection struct{}

func newLossy(t *testing.T, dir string) *lossy {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "site.crt"), filepath.Join(dir, "site.key"))
	check.OK(t, err)
	c := &lossy{}
	server := httptest.NewUnstartedServer(c)
	c.Listener, server.Listener = server.Listener, c
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.EnableHTTP2 = true
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, conn)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return c
}

func (c *lossy) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil || c.drops.Load() == 0 {
			return conn, err
		}
		c.drops.Add(-1)
		_ = conn.Close()
	}
}

func (c *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-API-Key") == "" {
		answer := denial.New(problem.InvalidKey)
		if r.URL.Query().Get("denial") == "header" {
			w.Header().Set("X-Sluice-Denial", string(answer.Body()))
		}
		answer.Write(w, 0)
		return
	}
	c.received.Add(1)
	if conn, ok := r.Context().Value(connection{}).(net.Conn); ok {
		_ = conn.Close()
	}
}

// TestRepeatedChecks checks that a proxy repeats a check only if no checker can have received it
// (promise U1).
func TestRepeatedChecks(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	dir := t.TempDir()
	certify(t, dir)
	for _, p := range proxies() {
		t.Run(p.name, func(t *testing.T) {
			c := newLossy(t, dir)
			p.checkers = c.Addr().String()
			g := p.trusting(t, s, "hello", filepath.Join(dir, "site.crt"), http.StatusUnauthorized)
			for sent := int64(1); sent <= 5; sent++ {
				if a := g.send(t, protocol, with("X-API-Key", "any")); a.Status < http.StatusInternalServerError {
					t.Errorf("check without a response: got %d %s, want 5xx", a.Status, a.Body)
				}
				if got := c.received.Load(); got != sent {
					t.Fatalf("checks for %d requests: got %d", sent, got)
				}
				if !p.repeats {
					continue
				}
				c.drops.Store(1)
				denied(t, g.send(t, protocol, request{}), http.StatusUnauthorized, "invalid_key", "")
				c.drops.Store(0)
			}
		})
	}
}
