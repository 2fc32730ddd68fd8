package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// gated returns a site with the gated app "hello" and a key for it.
func gated(t *testing.T) (*stacktest.Site, stacktest.Key) {
	t.Helper()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey(func(r *wire.CreateKey) { r.Name = "real name" })
	s.Opens("hello", k)
	return s, k
}

// cgi returns a header's name as CGI backends see it: each character other than a letter or a
// digit becomes "_".
func cgi(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
}

// seen returns the headers that an app could mistake for the gate's headers or for the key.
func seen(e stacktest.Echo) map[string][]string {
	found := map[string][]string{}
	for name, values := range e.Headers {
		if c := cgi(name); strings.HasPrefix(c, "x_service_key") || c == "x_api_key" {
			found[name] = values
		}
	}
	return found
}

func TestIdentityAliases(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "identity and key headers with every separator and letter case",
		"the app gets only the gate's two headers, never the key")
	s, k := gated(t)
	want := map[string][]string{"X-Service-Key-Prefix": {k.Prefix}, "X-Service-Key-Name": {"real name"}}
	var lines []string
	for _, sep := range "!#$%&'*+-.^_`|~" {
		for _, name := range []string{"X-Service-Key-Prefix", "x-service-key-prefix", "X-SERVICE-KEY-NAME", "x-Service-kEy-Name", "X-API-Key", "x-api-key"} {
			alias := strings.ReplaceAll(name, "-", string(sep))
			if cgi(alias) == "x_api_key" && sep == '-' {
				continue // a second key is rejected
			}
			value := "spoofed"
			if cgi(alias) == "x_api_key" {
				value = k.Full
			}
			lines = append(lines, alias+": "+value)
		}
		lines = append(lines, "X-Service"+string(sep)+"Key_Prefix: spoofed", "X"+string(sep)+"Service-Key.Name: spoofed")
	}
	for _, line := range append(lines, strings.Join(lines, "\r\n")) {
		got := answers(t, raw(t, atIngress(), "GET / HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\nConnection: close\r\nX-API-Key: "+k.Full+"\r\n"+line+"\r\n\r\n"))
		if len(got) != 1 || got[0].Status != http.StatusOK {
			t.Fatalf("%.60s: %+v", line, got)
		}
		if diff := cmp.Diff(want, seen(s.Echo(got[0]))); diff != "" {
			t.Errorf("%.60s (-want +got):\n%s", line, diff)
		}
		if strings.Contains(got[0].Body, k.Full[16:]) {
			t.Errorf("%.60s: the app got the key", line)
		}
	}
	row.Measured(fmt.Sprintf("%d aliases", len(lines)))
}

func TestConnectionHeader(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "`Connection` names identity, key or forwarding headers", "the app gets the gate's headers; without a key: 401")
	s, k := gated(t)
	want := map[string][]string{"X-Service-Key-Prefix": {k.Prefix}, "X-Service-Key-Name": {"real name"}}
	named := []string{
		"X-Service-Key-Prefix, X-Service-Key-Name", "x-service-key-prefix", "X-Forwarded-Method", "X-Forwarded-Uri, X-Forwarded-Host",
		"Access-Control-Request-Method", "close, X-Service-Key-Name", "keep-alive, X-Service-Key-Prefix",
	}
	for _, names := range named {
		a := s.Call("hello").Key(k).Header("Connection", names).Header("X-Service-Key-Prefix", "spoofed").Gets(http.StatusOK)
		if diff := cmp.Diff(want, seen(s.Echo(a))); diff != "" {
			t.Errorf("Connection: %s (-want +got):\n%s", names, diff)
		}
		s.Call("hello").Header("Connection", names).Gets(http.StatusUnauthorized, "invalid_key")
	}
	s.Call("hello").Key(k).Header("Connection", "X-API-Key").Gets(http.StatusUnauthorized, "invalid_key")
	row.Measured(fmt.Sprintf("%d", len(named)+1))
}

func TestTrailers(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "identity headers and a key as trailers", "trailers never become headers; a key in them is ignored")
	s, k := gated(t)
	send := func(key string) stacktest.Answer {
		got := answers(t, raw(t, atIngress(), "POST / HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\nConnection: close\r\n"+key+
			"Transfer-Encoding: chunked\r\nTrailer: X-Service-Key-Prefix, X-Service-Key-Name, X-API-Key\r\n\r\n"+
			"1\r\nx\r\n0\r\nX-Service-Key-Prefix: spoofed\r\nX-Service-Key-Name: spoofed\r\nX-API-Key: "+k.Full+"\r\n\r\n"))
		if len(got) != 1 {
			t.Fatalf("got %d responses, want 1", len(got))
		}
		return got[0]
	}
	if a := send(""); a.Status != http.StatusUnauthorized {
		t.Errorf("a key in a trailer: got %d, want %d", a.Status, http.StatusUnauthorized)
	}
	a := send("X-API-Key: " + k.Full + "\r\n")
	if a.Status != http.StatusOK {
		// A server may also reject a forbidden trailer.
		if a.Status != http.StatusBadRequest {
			t.Errorf("got %d %s, want %d or %d", a.Status, a.Body, http.StatusOK, http.StatusBadRequest)
		}
	} else if diff := cmp.Diff(map[string][]string{"X-Service-Key-Prefix": {k.Prefix}, "X-Service-Key-Name": {"real name"}}, seen(s.Echo(a))); diff != "" {
		t.Errorf("with trailers (-want +got):\n%s", diff)
	}
	row.Measured("2")
}

func TestForwardingHeaders(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "client-sent `X-Forwarded-*`, `Forwarded`, `X-Original-*`, `X-HTTP-Method-Override`, `X-Rewrite-URL`",
		"401; they change neither method nor app")
	s, _ := gated(t)
	pairs := [][2]string{
		{"X-Forwarded-Method", "OPTIONS"},
		{"X-Forwarded-Uri", "/check/other/app"},
		{"X-Forwarded-Uri", "/healthz"},
		{"X-Forwarded-Host", "localhost"},
		{"X-Forwarded-Prefix", "/healthz"},
		{"X-Forwarded-Proto", "https"},
		{"X-Forwarded-For", "127.0.0.1"},
		{"X-Real-Ip", "127.0.0.1"},
		{"Forwarded", "for=127.0.0.1;host=localhost;proto=https"},
		{"X-HTTP-Method-Override", "OPTIONS"},
		{"X-Method-Override", "OPTIONS"},
		{"X-Original-Method", "OPTIONS"},
		{"X-Original-URL", "/healthz"},
		{"X-Rewrite-URL", "/healthz"},
		{"X-Forwarded_Method", "OPTIONS"},
	}
	all := s.Call("hello").Header("Access-Control-Request-Method", "GET")
	for _, p := range pairs {
		s.Call("hello").Header("Access-Control-Request-Method", "GET").Header(p[0], p[1]).Gets(http.StatusUnauthorized, "invalid_key")
		all = all.Header(p[0], p[1])
	}
	all.Gets(http.StatusUnauthorized, "invalid_key")
	row.Measured(fmt.Sprintf("%d", len(pairs)+1))
}

func TestBrokenHeaders(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "ambiguous headers: folded lines, space before the colon, bare CR, NUL, a split key", "400 or 401, never the app")
	s, k := gated(t)
	half := k.Full[:20]
	broken := map[string]string{
		"space before the colon": "X-API-Key : " + k.Full,
		"folded in the middle":   "X-API-Key: " + half + "\r\n " + k.Full[20:],
		"folded onto another":    "X-Other: a\r\n X-API-Key: " + k.Full,
		"bare CR":                "X-Other: a\rX-API-Key: " + k.Full,
		"NUL":                    "X-API-Key: " + k.Full + "\x00",
		"NUL in the name":        "X-API\x00-Key: " + k.Full,
		"no name":                ": " + k.Full,
		"no colon":               "X-API-Key " + k.Full,
		"vertical tab":           "X-API-Key: \v" + k.Full,
		"two, half and half":     "X-API-Key: " + half + "\r\nX-API-Key: " + k.Full[20:],
		"two, the second good":   "X-API-Key: x\r\nX-API-Key: " + k.Full,
		"two, the first good":    "X-API-Key: " + k.Full + "\r\nx-api-key: x",
		"list":                   "X-API-Key: x, " + k.Full,
		"upper case":             "X-API-Key: " + strings.ToUpper(k.Full),
		"non-breaking space":     "X-API-Key: \u00a0" + k.Full,
		"percent-encoded":        "X-API-Key: " + strings.Replace(k.Full, "_", "%5F", 1),
		"encoded word":           "X-API-Key: =?utf-8?Q?" + k.Full + "?=",
	}
	for name, line := range broken {
		for _, a := range answers(t, raw(t, atIngress(), "GET / HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\nConnection: close\r\n"+line+"\r\n\r\n")) {
			if a.Status != http.StatusBadRequest && a.Status != http.StatusUnauthorized || reached(a) {
				t.Errorf("%s: got %d %s", name, a.Status, a.Body)
			}
		}
	}
	row.Measured(fmt.Sprintf("%d", len(broken)))
}
