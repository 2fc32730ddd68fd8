package workloads

import (
	"io"
	"net"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// upgradable lets every path answer an upgrade to HTTP/2 (RFC 7540, section 3.2), as
// servers do that take up whatever they are offered: for any method, and without
// HTTP2-Settings. Whoever gets such an upgrade through a proxy speaks to the app alone
// from then on.
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

// tunnel serves HTTP/2 on a request's connection until the client closes.
func (e *echo) tunnel(w http.ResponseWriter, r *http.Request, next http.Handler) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		e.log.Debug("no upgrade", "error", err)
		return
	}
	defer conn.Close() //nolint:errcheck // closed already when all went well
	const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
	if _, err := io.WriteString(conn, switching); err != nil {
		return // the client is gone
	}
	opts := &http2.ServeConnOpts{Context: r.Context(), Handler: next} //nolint:staticcheck // as below
	(&http2.Server{}).ServeConn(readAhead{conn, buffered}, opts)      //nolint:staticcheck // the connection is there already; net/http wants to make its own
}

// readAhead is a connection of which net/http has read something already.
type readAhead struct {
	net.Conn
	reader io.Reader
}

// Read implements [net.Conn].
func (c readAhead) Read(b []byte) (int, error) { return c.reader.Read(b) }

// fields are the headers of a request over HTTP/2, where all names are lower-case.
func fields(r *http.Request) map[string][]string {
	all := map[string][]string{":authority": {r.Host}}
	for name, values := range r.Header {
		all[strings.ToLower(name)] = values
	}
	return all
}
