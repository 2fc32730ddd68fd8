package stacktest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/sluicegate/sluice/tests/check"
)

// Upgrades returns headers that request another protocol. A proxy that accepts one opens a
// tunnel around the gate.
func Upgrades() map[string]string {
	const connection = "Connection: Upgrade\r\n"
	return map[string]string{
		"h2c":                      connection + "Upgrade: h2c\r\n",
		"h2c, as in RFC 7540":      "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"settings not named":       connection + "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"other case":               "CONNECTION: uPGRADE\r\nUPGRADE: H2C\r\n",
		"kept alive":               "Connection: keep-alive, upgrade\r\nUpgrade: h2c\r\n",
		"two connections":          "Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n",
		"spaces":                   connection + "Upgrade: \t h2c \t \r\n",
		"WebSocket and h2c":        connection + "Upgrade: websocket, h2c\r\n",
		"h2c and WebSocket":        connection + "Upgrade: h2c, websocket\r\n",
		"an empty value and h2c":   connection + "Upgrade: ,h2c\r\n",
		"WebSocket, again for h2c": connection + "Upgrade: websocket\r\nUpgrade: h2c\r\n",
		"h2c, again for WebSocket": connection + "Upgrade: h2c\r\nUpgrade: websocket\r\n",
		"empty, again for h2c":     connection + "Upgrade:\r\nUpgrade: h2c\r\n",
		"a version":                connection + "Upgrade: websocket/13\r\n",
		"TLS":                      connection + "Upgrade: TLS/1.0\r\n",
		"no connection":            "Upgrade: h2c\r\n",
	}
}

// Through sends n requests with a forged identity over an upgraded connection. It returns the
// number of successful responses.
func Through(t testing.TB, conn net.Conn, host string, n int) (answered int) {
	t.Helper()
	c, err := (&http2.Transport{AllowHTTP: true}).NewClientConn(conn) //nolint:staticcheck // net/http cannot use an existing connection
	if err != nil {
		return 0
	}
	for range n {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/tunnel", nil)
		check.OK(t, err)
		req.Header.Set("X-Service-Key-Prefix", "forged")
		res, err := c.RoundTrip(req)
		if err != nil {
			return answered
		}
		if _, err := io.Copy(io.Discard, res.Body); err == nil && res.StatusCode == http.StatusOK {
			answered++
		}
		_ = res.Body.Close()
	}
	return answered
}

// Raw is a connection for HTTP/1 by hand.
type Raw struct {
	net.Conn
	reader *bufio.Reader
}

// NewRaw returns a Raw for a new connection.
func NewRaw(conn net.Conn) Raw { return Raw{conn, bufio.NewReader(conn)} }

// Read implements [net.Conn], also after a response was read.
func (r Raw) Read(b []byte) (int, error) { return r.reader.Read(b) }

// Say sends text and reads one response. After the status 101, the connection uses the new
// protocol.
func (r Raw) Say(text string) (Answer, error) {
	if _, err := io.WriteString(r.Conn, text); err != nil {
		return Answer{}, err
	}
	res, err := http.ReadResponse(r.reader, nil)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Status: res.StatusCode, Header: res.Header}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return a, nil
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	a.Body = string(body)
	return a, err
}
