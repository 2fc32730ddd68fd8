package proxies

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func forged() http.Header {
	return http.Header{"X-Service-Key-Prefix": {"forged"}, "X-Service-Key-Name": {"forged"}, "X-API-Key": {"forged"}}
}

// nominated checks that a client cannot remove the gate's headers with Connection (promise G6).
func (g *gated) nominated(t *testing.T) {
	t.Helper()
	name := "Checkout team"
	k := g.Key(g.Plan(wire.CreatePlan{}), func(k *wire.CreateKey) { k.Name = name })
	g.Opens("hello", k)
	for _, connection := range []string{
		"X-Service-Key-Prefix", "x-service-key-name,X-SERVICE-KEY-PREFIX", "close, X-Service-Key-Prefix, X-Service-Key-Name",
		"keep-alive, X-Service-Key-Prefix\r\nConnection: X-Service-Key-Name", "X-Forwarded-Method, X-Service-Key-Prefix", "X-API-Key",
	} {
		for _, upgrade := range []string{"", ", Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="} {
			head := "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: " + connection + upgrade + "\r\n"
			if a := g.say(t, head+"\r\n"); a.Status == http.StatusOK {
				t.Errorf("Connection %q without a key: got %d %s", connection+upgrade, a.Status, a.Body)
			}
			a := g.say(t, head+"X-API-Key: "+k.Full+"\r\n\r\n")
			if connection == "X-API-Key" && a.Status == http.StatusUnauthorized {
				continue // the client has removed its key
			}
			e := g.echo(t, a)
			g.identified(t, e, k)
			if got := values(e, "Connection"); strings.Contains(strings.ToLower(got), "x-") {
				t.Errorf("Connection %q reached the app as %q", connection+upgrade, got)
			}
		}
	}
}

func (g *gated) say(t *testing.T, text string) stacktest.Answer {
	t.Helper()
	conn := stacktest.NewRaw(g.conversation(t, "http/1.1"))
	defer conn.Close()
	a, err := conn.Say(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return a
}

// trailers checks that trailers carry no identity or key to the app (promises G6, G7).
func (g *gated) trailers(t *testing.T, protocol string, k stacktest.Key) {
	t.Helper()
	if g.proxy.trailers { // see infra/proxies/README.md
		t.Skip("this proxy may pass trailers on")
	}
	post := keyed(k)
	post.method, post.body = http.MethodPost, []byte("body")
	for what, r := range map[string]request{"request": post, "preflight": preflight()} {
		r.streamed, r.trailer = true, forged()
		a, err := g.try(t, protocol, r)
		if err != nil {
			t.Logf("%s: %v", what, err) // nginx ends the HTTP/2 connection
			continue
		}
		g.untrailed(t, what, a)
	}
	if protocol != "HTTP/1.1" {
		return
	}
	unannounced := "Transfer-Encoding: chunked\r\nX-API-Key: " + k.Full + "\r\n\r\n1\r\nx\r\n0\r\nX-Service-Key-Prefix: forged\r\nX-API-Key: forged\r\n\r\n"
	g.untrailed(t, "unannounced", g.say(t, "POST / HTTP/1.1\r\nHost: "+host+"\r\n"+unannounced))
}

func (g *gated) untrailed(t *testing.T, what string, a stacktest.Answer) {
	t.Helper()
	if a.Status != http.StatusOK {
		t.Logf("%s: denied with %d", what, a.Status)
		return
	}
	for name, v := range g.echo(t, a).Trailers {
		if len(v) > 0 {
			t.Errorf("%s: the app got the trailer %s: %v", what, name, v)
		}
	}
}
