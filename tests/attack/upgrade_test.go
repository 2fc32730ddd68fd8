package attack

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestUpgradeTunnels tries to open connections on which an app would serve requests that the gate
// has not checked.
func TestUpgradeTunnels(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "`Upgrade: h2c` in all forms, with a key and in preflights; HTTP/2 `CONNECT`; preflights with bodies",
		"no connection changes its protocol; the app gets no upgrade request")
	s, k := gated(t)
	ways := stacktest.Upgrades()
	ways["WebSocket"] = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	tried, headers := 0, "Host: "+s.Host("hello")+"\r\nAccess-Control-Request-Method: GET\r\n"
	for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodPost} {
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			for _, key := range []string{"", "X-API-Key: " + k.Full + "\r\n"} {
				for name, upgrade := range ways {
					tried++
					conn := stacktest.NewRaw(dial(t, atIngress()))
					a, err := conn.Say(method + " / " + version + "\r\n" + headers + key + upgrade + "\r\n")
					if err != nil {
						t.Errorf("%s %s, key %t, %s: %v", method, version, key != "", name, err)
					}
					if a.Status == http.StatusSwitchingProtocols {
						t.Errorf("%s %s, key %t, %s: %d of 200 requests around the gate", method, version, key != "", name, stacktest.Through(t, conn, s.Host("hello"), 200))
					}
					asksForNothing(t, s, name, a)
					_ = conn.Close()
				}
			}
		}
	}
	tried += connects(t, s, k) + bodies(t, s)
	row.Measured(fmt.Sprintf("%d", tried))
}

// connects tries HTTP/2 tunnels with a key (RFC 9113 section 8.5, RFC 8441).
func connects(t *testing.T, s *stacktest.Site, k stacktest.Key) int {
	t.Helper()
	host := s.Host("hello")
	to := [][2]string{{":scheme", "http"}, {":authority", host}, {":path", "/"}, {"x-api-key", k.Full}}
	ways := [][][2]string{{{":method", "CONNECT"}, {":authority", host}, {"x-api-key", k.Full}}}
	for _, protocol := range []string{"h2c", "websocket, h2c", "connect-udp"} {
		ways = append(ways, append([][2]string{{":method", "CONNECT"}, {":protocol", protocol}}, to...))
	}
	for _, fields := range ways {
		if a := stacktest.SpeakHTTP2(t, dial(t, atIngress()), fields, nil); a.Status == http.StatusOK {
			t.Errorf("%v: got %d %s", fields, a.Status, a.Body)
		}
	}
	return len(ways)
}

// bodies sends preflights with bodies, which must not reach the app.
func bodies(t *testing.T, s *stacktest.Site) int {
	t.Helper()
	head := "OPTIONS / HTTP/1.1\r\nHost: " + s.Host("hello") + "\r\nAccess-Control-Request-Method:"
	ways := []string{
		head + " GET\r\nContent-Length: 1\r\n\r\nx",
		head + " GET\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		head + "\r\nContent-Length: 1\r\n\r\nx",
	}
	for _, sent := range ways {
		a, err := stacktest.NewRaw(dial(t, atIngress())).Say(sent)
		if err != nil {
			t.Error(err)
		} else if reached(a) && s.Echo(a).BodyBytes > 0 {
			t.Errorf("%.200q carried %d bytes to the app", sent, s.Echo(a).BodyBytes)
		}
	}
	return len(ways)
}

// asksForNothing checks that no upgrade has reached the app, except a WebSocket's.
func asksForNothing(t *testing.T, s *stacktest.Site, name string, a stacktest.Answer) {
	t.Helper()
	if !reached(a) {
		return
	}
	e := s.Echo(a)
	for header, values := range e.Headers {
		switch c := cgi(header); {
		case c == "http2_settings", c == "upgrade" && (fmt.Sprint(values) != "[websocket]" || e.Method != http.MethodGet):
			t.Errorf("%s: the app got %s with %s: %v", name, e.Method, header, values)
		}
	}
}
