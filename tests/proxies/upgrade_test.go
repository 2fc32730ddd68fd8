package proxies

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const patience = 30 * time.Second

func (g *gated) conversation(t *testing.T, protocol string) *tls.Conn {
	t.Helper()
	transport, ok := g.clients["HTTP/1.1"].Transport.(*http.Transport)
	if !ok {
		t.Fatal("the client's transport is not an *http.Transport")
	}
	conn, err := transport.DialContext(t.Context(), "tcp", "")
	check.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	config := transport.TLSClientConfig.Clone()
	config.NextProtos = []string{protocol}
	return tls.Client(conn, config)
}

// upgrades checks that the gate allows only WebSocket upgrades. The app would accept any.
func (g *gated) upgrades(t *testing.T) {
	t.Helper()
	k := g.AnyKey()
	g.Opens("hello", k)
	preflight := "Origin: https://shop.example\r\nAccess-Control-Request-Method: GET\r\n"
	key := "X-API-Key: " + k.Full + "\r\n"
	websocket := "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for who, head := range map[string]string{
		"a preflight":         "OPTIONS / HTTP/1.1\r\n" + preflight,
		"a preflight for /ws": "OPTIONS /ws HTTP/1.1\r\n" + preflight,
		"a key":               "GET / HTTP/1.1\r\n" + key,
		"a key, by POST":      "POST / HTTP/1.1\r\nContent-Length: 0\r\n" + key,
		"an old preflight":    "OPTIONS / HTTP/1.0\r\n" + preflight,
		"a key, HTTP/1.0":     "GET / HTTP/1.0\r\n" + key,
	} {
		for name, upgrade := range stacktest.Upgrades() {
			g.notUpgraded(t, who+", "+name, head+upgrade)
		}
		if !strings.HasPrefix(head, "GET") {
			g.notUpgraded(t, who+", WebSocket", head+websocket)
		}
	}
	g.connect(t, k)
}

// notUpgraded sends a request's head, completed by the host.
func (g *gated) notUpgraded(t *testing.T, name, head string) {
	t.Helper()
	line, rest, _ := strings.Cut(head, "\r\n")
	conn := stacktest.NewRaw(g.conversation(t, "http/1.1"))
	a, err := conn.Say(line + "\r\nHost: " + host + "\r\n" + rest + "\r\n")
	switch {
	case err != nil:
		t.Errorf("%s: %v", name, err)
	case a.Status == http.StatusSwitchingProtocols:
		t.Errorf("%s: the app serves %s, %d of 20 requests around the gate", name, a.Header.Get("Upgrade"), stacktest.Through(t, conn, host, 20))
	case a.Status == http.StatusOK:
		g.plain(t, name, g.echo(t, a))
	}
	_ = conn.Close()
}

// plain checks that the app got no upgrade other than a WebSocket's.
func (g *gated) plain(t *testing.T, name string, e stacktest.Echo) {
	t.Helper()
	if got := values(e, "Upgrade"); got != "" && (got != "websocket" || e.Method != http.MethodGet) {
		t.Errorf("%s: the app got %s with Upgrade: %s", name, e.Method, got)
	}
	if got := values(e, "HTTP2-Settings"); got != "" {
		t.Errorf("%s: the app got HTTP2-Settings: %s", name, got)
	}
}

// connect tries CONNECT to a host and a protocol (RFC 8441), and upgrade headers in HTTP/2.
func (g *gated) connect(t *testing.T, k stacktest.Key) {
	t.Helper()
	base := [][2]string{{":scheme", "https"}, {":authority", host}, {":path", "/"}}
	get := append([][2]string{{":method", "GET"}}, base...)
	for name, fields := range map[string][][2]string{
		"CONNECT":             {{":method", "CONNECT"}, {":authority", host + ":443"}},
		"CONNECT to h2c":      append([][2]string{{":method", "CONNECT"}, {":protocol", "h2c"}}, base...),
		"CONNECT to both":     append([][2]string{{":method", "CONNECT"}, {":protocol", "websocket, h2c"}}, base...),
		"CONNECT for TCP":     append([][2]string{{":method", "CONNECT"}, {":protocol", "connect-udp"}}, base...),
		"upgrade":             append(get, [2]string{"upgrade", "h2c"}),
		"upgrade, connection": append(get, [2]string{"connection", "upgrade"}, [2]string{"upgrade", "h2c"}),
		"settings":            append(get, [2]string{"http2-settings", "AAMAAABkAAQAAP__"}),
	} {
		for _, key := range []string{"", k.Full} {
			sent := append(fields[:len(fields):len(fields)], [2]string{"x-api-key", key})
			a := stacktest.SpeakHTTP2(t, g.conversation(t, "h2"), sent, nil)
			switch {
			case a.Status == http.StatusOK && key == "":
				t.Errorf("%s without a key: got %d %s", name, a.Status, a.Body)
			case a.Status == http.StatusOK:
				e := g.echo(t, a)
				g.plain(t, name, e)
				if e.Method == http.MethodConnect {
					t.Errorf("%s: the app got %s %s", name, e.Method, e.Path)
				}
			}
		}
	}
}
