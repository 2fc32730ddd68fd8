package workloads

import (
	"io"
	"net"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// upgradable accepts an upgrade to HTTP/2 (RFC 7540, section 3.2) on every path and for any
// method, like lenient servers. A client that upgrades its connection through a proxy bypasses
// the proxy's checks.
func (e *echo) upgradable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") &&
			httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "h2c") {
			e.tunnel(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (e *echo) tunnel(w http.ResponseWriter, r *http.Request, next http.Handler) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		e.log.Debug("upgrade failed", "error", err)
		return
	}
	defer conn.Close() //nolint:errcheck // already closed on success
	const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
	if _, err := io.WriteString(conn, switching); err != nil {
		return
	}
	opts := &http2.ServeConnOpts{Context: r.Context(), Handler: next} //nolint:staticcheck // as below
	(&http2.Server{}).ServeConn(readAhead{conn, buffered}, opts)      //nolint:staticcheck // net/http cannot use an existing connection
}

// readAhead is a connection with data that net/http has already read.
type readAhead struct {
	net.Conn
	reader io.Reader
}

// Read implements [net.Conn].
func (c readAhead) Read(b []byte) (int, error) { return c.reader.Read(b) }

func fields(r *http.Request) map[string][]string {
	all := map[string][]string{":authority": {r.Host}}
	for name, values := range r.Header {
		all[strings.ToLower(name)] = values
	}
	return all
}
