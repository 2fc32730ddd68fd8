package attack

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestPseudoHeaders(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "HTTP/2 pseudo-headers: conflicting, duplicate, late, empty or invalid",
		"protocol error, 400, 401 or 404; never the gated app")
	s, k := gated(t)
	s.App("open")
	gate, open := s.Host("hello"), s.Host("open")
	base := func(more ...[2]string) [][2]string {
		return append([][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", gate}, {":path", "/"}}, more...)
	}
	tests := map[string][][2]string{
		"plain":                    base(),
		"host of another":          base([2]string{"host", open}),
		"two authorities":          append([][2]string{{":authority", open}}, base()...),
		"authority after a header": {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"x", "y"}, {":authority", gate}},
		"open authority, gated host": {
			{":method", "GET"}, {":scheme", "http"}, {":authority", open}, {":path", "/"}, {"host", gate},
		},
		"no authority":        {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", gate}},
		"absolute path":       {{":method", "GET"}, {":scheme", "http"}, {":authority", open}, {":path", "http://" + gate + "/"}},
		"path of two slashes": {{":method", "GET"}, {":scheme", "http"}, {":authority", gate}, {":path", "//" + open + "/"}},
		"path with a break":   {{":method", "GET"}, {":scheme", "http"}, {":authority", gate}, {":path", "/ HTTP/1.1\r\nHost: " + open + "\r\n\r\n"}},
		"no path":             {{":method", "GET"}, {":scheme", "http"}, {":authority", gate}},
		"empty path":          {{":method", "GET"}, {":scheme", "http"}, {":authority", gate}, {":path", ""}},
		"star":                {{":method", "OPTIONS"}, {":scheme", "http"}, {":authority", gate}, {":path", "*"}},
		"method with a break": {{":method", "GET / HTTP/1.1\r\nX: "}, {":scheme", "http"}, {":authority", gate}, {":path", "/"}},
		"scheme with a path":  {{":method", "GET"}, {":scheme", "http://" + open + "/?"}, {":authority", gate}, {":path", "/"}},
		"connect":             {{":method", "CONNECT"}, {":authority", gate + ":80"}},
		"extended connect":    base([2]string{":protocol", "websocket"}),
		"unknown pseudo":      base([2]string{":path2", "/"}),
		"response pseudo":     base([2]string{":status", "200"}),
		"header with a break": base([2]string{"x", "a\r\nX-API-Key: " + k.Full}),
		"name with a break":   base([2]string{"x: a\r\nx-api-key", k.Full}),
		"name in upper case":  base([2]string{"X-API-Key", k.Full}),
		"name with a colon":   base([2]string{"x-api-key:", k.Full}),
		"connection":          base([2]string{"connection", "x-api-key"}),
		"transfer-encoding":   base([2]string{"transfer-encoding", "chunked"}),
		"two keys":            base([2]string{"x-api-key", k.Full}, [2]string{"x-api-key", k.Full}),
		"key as preflight":    base([2]string{"access-control-request-method", "GET"}, [2]string{"x-forwarded-method", "OPTIONS"}),
	}
	for name, fields := range tests {
		a := stacktest.SpeakHTTP2(t, dial(t, atIngress()), fields, nil)
		if reached(a) && s.Echo(a).App != "open" {
			t.Errorf("%s reached the gated app: %s", name, a.Body)
		}
		switch a.Status {
		case 0, http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		case http.StatusOK:
			if name != "open authority, gated host" && name != "absolute path" && name != "star" {
				t.Errorf("%s: got %d %s", name, a.Status, a.Body)
			}
		default:
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if a := stacktest.SpeakHTTP2(t, dial(t, atIngress()), base([2]string{"x-api-key", k.Full}, [2]string{"x-service-key-prefix", "spoofed"}), nil); !reached(a) {
		t.Errorf("valid HTTP/2 request: got %d %s", a.Status, a.Body)
	} else if got := seen(s.Echo(a)); len(got["X-Service-Key-Prefix"]) != 1 || got["X-Service-Key-Prefix"][0] != k.Prefix {
		t.Errorf("valid HTTP/2 request: the app got %v, want prefix %s", got, k.Prefix)
	}
	row.Measured(fmt.Sprintf("%d", len(tests)))
}
