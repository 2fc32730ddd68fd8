package tests

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestIdentityHeaders: the app gets the key's public identity, and never the key.
func TestIdentityHeaders(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	named := s.AnyKey(func(r *wire.CreateKey) { r.Name = "Café 5%" })
	nameless := s.AnyKey()
	s.Opens("hello", named)
	s.Opens("hello", nameless)

	got := identity(s.Echo(s.Call("hello").Key(named).Send()))
	check.Equal(t, "named key", map[string][]string{"X-Service-Key-Prefix": {named.Prefix}, "X-Service-Key-Name": {"Caf%C3%A9 5%25"}}, got)
	got = identity(s.Echo(s.Call("hello").Key(nameless).Send()))
	check.Equal(t, "nameless key", map[string][]string{"X-Service-Key-Prefix": {nameless.Prefix}}, got)
}

// identity picks the headers, as the app received them, that speak of the key
// in any spelling that a backend could take for them.
func identity(e stacktest.Echo) map[string][]string {
	found := map[string][]string{}
	for name, values := range e.Headers {
		plain := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
		if strings.HasPrefix(plain, "x-service-key") || plain == "x-api-key" {
			found[name] = values
		}
	}
	return found
}

// TestSpoofedHeaders sends the identity headers in every alias, and the key too.
func TestSpoofedHeaders(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	want := map[string][]string{"X-Service-Key-Prefix": {k.Prefix}}
	var spoofs [][2]string
	for _, sep := range []string{"-", "_", "."} {
		for _, name := range []string{"X-Service-Key-Prefix", "X-Service-Key-Name", "x-service-key-prefix", "X-SERVICE-KEY-NAME", "x-Service-kEy-Name"} {
			spoofs = append(spoofs, [2]string{strings.ReplaceAll(name, "-", sep), "spoofed"})
		}
		if sep != "-" {
			spoofs = append(spoofs, [2]string{strings.ReplaceAll("X-API-Key", "-", sep), k.Full}, [2]string{strings.ReplaceAll("x-api-key", "-", sep), k.Full})
		}
	}
	spoofs = append(spoofs, [2]string{"X-Service_Key.Prefix", "spoofed"}, [2]string{"X_Service-Key-Name", "spoofed"})
	all := s.Call("hello").Key(k)
	for _, h := range spoofs {
		one := s.Call("hello").Key(k).Header(h[0], h[1]).Header(h[0], "twice").Gets(http.StatusOK)
		check.Equal(t, h[0], want, identity(s.Echo(one)))
		all = all.Header(h[0], h[1])
	}
	check.Equal(t, "all at once", want, identity(s.Echo(all.Gets(http.StatusOK))))
	hop := s.Call("hello").Key(k).Header("Connection", "X-Service-Key-Prefix, X-Service-Key-Name").Gets(http.StatusOK)
	check.Equal(t, "Connection", want, identity(s.Echo(hop)))
	if strings.Contains(all.Gets(http.StatusOK).Body, k.Full[16:]) {
		t.Error("the key reached the app")
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	a := s.Call("hello").Method(http.MethodOptions).Header("Origin", "https://shop.example").Header("Access-Control-Request-Method", "GET").
		Header("X-Service-Key-Prefix", "spoofed").Gets(http.StatusOK)
	if e := s.Echo(a); e.Method != http.MethodOptions || len(identity(e)) != 0 {
		t.Errorf("the app saw %s with %v", e.Method, identity(e))
	}
	s.Call("hello").Method(http.MethodOptions).Gets(http.StatusUnauthorized, "invalid_key")
	// Only the method that the proxy saw counts.
	s.Call("hello").Header("X-Forwarded-Method", "OPTIONS").Header("Access-Control-Request-Method", "GET").Gets(http.StatusUnauthorized, "invalid_key")
}

// TestPreflightHasNoCredentials: a preflight, which needs no key, reaches the app without
// the client's credentials and without a header by which an app could take it for another
// method.
func TestPreflightHasNoCredentials(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	forbidden := []string{
		"Cookie", "Authorization", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override",
		"x_http_method_override", "X.HTTP-Method_Override", "X_Method.Override",
	}
	with := func(c *stacktest.Call) *stacktest.Call {
		for _, name := range forbidden {
			c = c.Header(name, "DELETE")
		}
		return c
	}
	e := s.Echo(with(s.Call("hello").Method(http.MethodOptions).Header("Access-Control-Request-Method", "GET")).Gets(http.StatusOK))
	for _, name := range forbidden {
		if got := e.Headers[http.CanonicalHeaderKey(name)]; got != nil {
			t.Errorf("the app got %s: %q", name, got)
		}
	}
	e = s.Echo(with(s.Call("hello").Key(k)).Gets(http.StatusOK))
	if e.Headers["Authorization"] == nil || e.Headers["X-Http-Method-Override"] == nil {
		t.Errorf("a request with a key lost its headers: %v", e.Headers)
	}
}

// TestRefusedPreflight: an app can refuse preflights. They then need a key, and count.
func TestRefusedPreflight(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	if _, err := s.Client.SetPreflight(t.Context(), s.Project, s.Env, "hello", "refuse"); err != nil {
		t.Fatal(err)
	}
	s.WaitGate("hello", "engaged")
	preflight := func() *stacktest.Call {
		return s.Call("hello").Method(http.MethodOptions).Header("Access-Control-Request-Method", "GET")
	}
	preflight().Gets(http.StatusUnauthorized, "invalid_key")
	preflight().Key(k).Gets(http.StatusOK)
}

func TestTwoKeysAreNoKey(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	s.Call("hello").Key(k).Key(k).Gets(http.StatusUnauthorized, "invalid_key")
	s.Call("hello").Header("X-API-Key", "").Key(k).Gets(http.StatusUnauthorized, "invalid_key")
}

// TestBodiesAndMethods: what an allowed request carries arrives whole.
func TestBodiesAndMethods(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	// Read from the connection itself: a client library would hide a body.
	for status, key := range map[string]string{"200": "X-API-Key: " + k.Full + "\r\n", "401": ""} {
		answer := raw(t, "HEAD / HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\n"+key+"Connection: close\r\n\r\n")
		header, body, whole := strings.Cut(answer, "\r\n\r\n")
		if !whole || body != "" || !strings.HasPrefix(header, "HTTP/1.1 "+status) {
			t.Errorf("HEAD, want %s without a body: %q", status, answer)
		}
	}
	e := s.Echo(s.Call("hello").Key(k).Method(http.MethodPost).Path("/some/where?x=1").Body(bytes.Repeat([]byte("x"), 1<<20)).Gets(http.StatusOK))
	if e.Method != http.MethodPost || e.BodyBytes != 1<<20 || !strings.HasPrefix(e.Path, "/some/where") {
		t.Errorf("the app saw %s %s with %d bytes", e.Method, e.Path, e.BodyBytes)
	}
	s.Call("hello").Method(http.MethodPost).Body(bytes.Repeat([]byte("x"), 1<<20)).Gets(http.StatusUnauthorized, "invalid_key")
	s.Call("hello").Key(k).Path("/status/418").Gets(http.StatusTeapot)
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	url := "ws://" + s.Host("hello") + "/ws"
	options := &websocket.DialOptions{HTTPClient: stacktest.Ingress(world), HTTPHeader: http.Header{"X-Api-Key": {k.Full}}}
	options.HTTPClient.Timeout = 0
	conn, _, err := websocket.Dial(ctx, url, options)
	check.OK(t, err)
	defer func() { _ = conn.CloseNow() }()
	for _, message := range []string{"one", "two"} {
		check.OK(t, conn.Write(ctx, websocket.MessageText, []byte(message)))
		if _, got, err := conn.Read(ctx); err != nil || string(got) != message {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	options.HTTPHeader = nil
	_, res, err := websocket.Dial(ctx, url, options)
	if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v, %v", res, err)
	}
}

// TestStream: a streamed answer arrives piece by piece, not at its end.
func TestStream(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Host("hello")+"/stream?chunks=4&interval=500ms", nil)
	check.OK(t, err)
	req.Header.Set("X-API-Key", k.Full)
	res, err := stacktest.Ingress(world).Do(req)
	check.OK(t, err)
	defer func() { _ = res.Body.Close() }()
	body := bufio.NewReader(res.Body)
	first, err := body.ReadString('\n')
	if err != nil || first == "" || res.StatusCode != http.StatusOK {
		t.Errorf("first piece %q of %d, %v", first, res.StatusCode, err)
	}
	came := time.Now()
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Error(err)
	}
	if later := time.Since(came); later < 500*time.Millisecond { // three more, half a second apart
		t.Errorf("the rest came %v after the first piece: it was held back", later)
	}
}

// raw sends bytes to the ingress and reads until it closes the connection.
func raw(t *testing.T, request string) string {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(world.Info().IngressURL, "http://"))
	check.OK(t, err)
	defer func() { _ = conn.Close() }()
	check.OK(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	check.OK(t, err)
	return string(answer)
}

// TestRawKeyHeaders sends what no client library would.
func TestRawKeyHeaders(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	tests := []struct {
		name, header, want string
	}{
		{"as it is", "X-API-Key: " + k.Full, "200"},
		{"spaces around", "X-API-Key:   " + k.Full + "  ", "200"},
		{"in other letters", "x-aPi-kEy: " + k.Full, "200"},
		{"quoted", `X-API-Key: "` + k.Full + `"`, "401"},
		{"two in one", "X-API-Key: " + k.Full + "," + k.Full, "401"},
		{"with a scheme", "X-API-Key: Bearer " + k.Full, "401"},
		{"in an alias", "X_API_Key: " + k.Full, "401"},
		{"named as hop-by-hop", "X-API-Key: " + k.Full + "\r\nConnection: X-API-Key", "401"},
		{"space before the colon", "X-API-Key : " + k.Full, "400"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := raw(t, "GET / HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\nConnection: close\r\n"+test.header+"\r\n\r\n")
			if line, _, _ := strings.Cut(answer, "\r\n"); !strings.HasPrefix(line, "HTTP/1.1 "+test.want) {
				t.Errorf("got %q, want %s", line, test.want)
			}
		})
	}
}
