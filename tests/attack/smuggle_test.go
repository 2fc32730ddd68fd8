package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestSmuggling sends bodies that end at different places for different parsers. Each contains a
// request for the gated app.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "request smuggling: conflicting or invalid `Content-Length`, `Transfer-Encoding` and chunks",
		"the inner request never reaches the app; no response goes to another request")
	s, k := gated(t)
	s.App("open")
	inner := "GET /smuggled HTTP/1.1\r\nHost: " + s.Host("hello") + "\r\nX-Service-Key-Prefix: spoofed\r\n\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
	heads := map[string]string{
		"CL.TE":               fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", 5+len(inner), inner),
		"TE.CL":               "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
		"TE.TE, the other":    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner,
		"TE in capitals":      "Content-Length: 4\r\nTransfer-Encoding: CHUNKED\r\n\r\n" + chunk,
		"TE x":                "Content-Length: 4\r\nTransfer-Encoding: xchunked\r\n\r\n" + chunk,
		"TE tab":              "Content-Length: 4\r\nTransfer-Encoding:\tchunked\r\n\r\n" + chunk,
		"TE vertical tab":     "Content-Length: 4\r\nTransfer-Encoding: \vchunked\r\n\r\n" + chunk,
		"TE space colon":      "Content-Length: 4\r\nTransfer-Encoding : chunked\r\n\r\n" + chunk,
		"TE folded":           "Content-Length: 4\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" + chunk,
		"TE list":             "Content-Length: 4\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + chunk,
		"TE list, chunked in": "Content-Length: 4\r\nTransfer-Encoding: chunked, identity\r\n\r\n" + chunk,
		"TE quoted":           "Content-Length: 4\r\nTransfer-Encoding: \"chunked\"\r\n\r\n" + chunk,
		"TE under an alias":   "Content-Length: 4\r\nTransfer_Encoding: chunked\r\n\r\n" + chunk,
		"TE hop-by-hop":       "Connection: Transfer-Encoding\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
		"CL hop-by-hop":       fmt.Sprintf("Connection: Content-Length\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner),
		"two CL":              fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner),
		"CL list":             fmt.Sprintf("Content-Length: 0, %d\r\n\r\n%s", len(inner), inner),
		"CL plus":             fmt.Sprintf("Content-Length: +%d\r\n\r\n%s", len(inner), inner),
		"CL minus":            "Content-Length: -1\r\n\r\n" + inner,
		"CL zeros":            "Content-Length: 000\r\n\r\n" + inner,
		"CL hex":              "Content-Length: 0x0\r\n\r\n" + inner,
		"CL huge":             "Content-Length: 99999999999999999999\r\n\r\n" + inner,
		"CL empty":            "Content-Length: \r\n\r\n" + inner,
		"chunk overflow":      "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + inner,
		"chunk minus":         "Transfer-Encoding: chunked\r\n\r\n-1\r\n" + inner,
		"chunk 0x":            "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + inner,
		"chunk extension":     "Transfer-Encoding: chunked\r\n\r\n0;x=\"\r\n\r\n" + inner,
		"chunk bare LF":       "Transfer-Encoding: chunked\r\n\r\n0\n\n" + inner,
		"chunk bare CR":       "Transfer-Encoding: chunked\r\n\r\n1\rx\r\n0\r\n\r\n" + inner,
		"chunk short":         "Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n" + inner,
		"upgrade":             "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + inner,
		"websocket":           "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 777\r\n\r\n" + inner,
		"expect":              fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner),
	}
	n := 0
	for name, rest := range heads {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			for _, host := range []string{s.Host("hello"), s.Host("open")} {
				for _, key := range []string{"", "X-API-Key: " + k.Full + "\r\n"} {
					n++
					got := raw(t, atIngress(), method+" /outer HTTP/1.1\r\nHost: "+host+"\r\n"+key+rest+"GET /last HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\nConnection: close\r\n\r\n")
					if strings.Contains(got, `"/smuggled"`) {
						t.Errorf("%s %s to %s, key %t: the inner request reached the app:\n%s", method, name, host, key != "", got)
					}
				}
			}
		}
	}
	// Data left in the proxy's backend connections would appear in these responses.
	for i := range 50 {
		for _, app := range []string{"hello", "open"} {
			path := fmt.Sprintf("/after/%d", i)
			e := s.Echo(s.Call(app).Key(k).Path(path).Gets(http.StatusOK))
			if e.Path != path || e.App != app {
				t.Errorf("request to %s for %s: got the response of %s for %s", app, path, e.App, e.Path)
			}
		}
	}
	row.Measured(fmt.Sprintf("%d requests", n))
}
