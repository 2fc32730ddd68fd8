package proxies

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestConnections checks that the proxy reuses connections and TLS sessions, and sends the app
// only checked requests.
func TestConnections(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	key := s.AnyKey()
	s.Opens("hello", key)
	for _, p := range proxies() {
		t.Run(p.name, func(t *testing.T) {
			var opened, smuggled atomic.Int64
			app := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/smuggled" {
					smuggled.Add(1)
				}
			}))
			app.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened.Add(1)
				}
			}
			app.Start()
			defer app.Close()
			p.app = strings.TrimPrefix(app.URL, "http://")
			g := p.start(t, s, "hello")
			for range 30 {
				if a := g.send(t, "HTTP/1.1", keyed(key)); a.Status != http.StatusOK {
					t.Fatalf("got %d: %s, want %d", a.Status, a.Body, http.StatusOK)
				}
			}
			if n := opened.Load(); n > 3 {
				t.Errorf("connections to the app for 30 sequential requests: got %d, want at most 3", n)
			}
			g.smuggle(t)
			for range 30 {
				g.send(t, "HTTP/1.1", keyed(key))
			}
			if n := smuggled.Load(); n != 0 {
				t.Errorf("got %d unchecked requests, want 0", n)
			}
			g.resumes(t)
		})
	}
}

// smuggle sends preflights with requests as bodies. On a reused connection, the app would serve
// such a body as the next request.
func (g *gated) smuggle(t *testing.T) {
	t.Helper()
	for _, streamed := range []bool{false, true} {
		for protocol := range g.clients {
			_, err := g.try(t, protocol, request{
				method: http.MethodOptions, header: http.Header{"Origin": {"https://shop.example"}, "Access-Control-Request-Method": {"GET"}},
				body: []byte("GET /smuggled HTTP/1.1\r\nHost: app\r\n\r\n"), streamed: streamed,
			})
			t.Logf("%s, streamed %t: %v", protocol, streamed, err) // some proxies end the connection
		}
	}
}

func (g *gated) resumes(t *testing.T) {
	t.Helper()
	transport := g.transport(t).Clone()
	transport.DisableKeepAlives = true
	transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	client := http.Client{Transport: transport}
	var resumed bool
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url("/"), nil)
		check.OK(t, err)
		res, err := client.Do(req)
		check.OK(t, err)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		resumed = res.TLS.DidResume
	}
	if !resumed {
		t.Error("a second connection did not resume the TLS session of the first")
	}
}
