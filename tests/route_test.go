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

func TestIdentityHeaders(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	named := s.AnyKey(func(r *wire.CreateKey) { r.Name = "Café 5%" })
	nameless := s.AnyKey()
	s.Opens("hello", named)
	s.Opens("hello", nameless)

	got := identityHeaders(s.Echo(s.Call("hello").Key(named).Send()))
	check.Equal(t, "named key", map[string][]string{"X-Service-Key-Prefix": {named.Prefix}, "X-Service-Key-Name": {"Caf%C3%A9 5%25"}}, got)
	got = identityHeaders(s.Echo(s.Call("hello").Key(nameless).Send()))
	check.Equal(t, "nameless key", map[string][]string{"X-Service-Key-Prefix": {nameless.Prefix}}, got)
}

// identityHeaders returns the headers at the app that identify or contain the key, in any
// spelling.
func identityHeaders(e stacktest.Echo) map[string][]string {
	found := map[string][]string{}
	for name, values := range e.Headers {
		plain := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
		if strings.HasPrefix(plain, "x-service-key") || plain == "x-api-key" {
			found[name] = values
		}
	}
	return found
}

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
		check.Equal(t, h[0], want, identityHeaders(s.Echo(one)))
		all = all.Header(h[0], h[1])
	}
	check.Equal(t, "all at once", want, identityHeaders(s.Echo(all.Gets(http.StatusOK))))
	hop := s.Call("hello").Key(k).Header("Connection", "X-Service-Key-Prefix, X-Service-Key-Name").Gets(http.StatusOK)
	check.Equal(t, "Connection", want, identityHeaders(s.Echo(hop)))
	if strings.Contains(all.Gets(http.StatusOK).Body, k.Full[16:]) {
		t.Error("the app received the key")
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	a := s.Call("hello").Method(http.MethodOptions).Header("Origin", "https://shop.example").Header("Access-Control-Request-Method", "GET").
		Header("X-Service-Key-Prefix", "spoofed").Gets(http.StatusOK)
	if e := s.Echo(a); e.Method != http.MethodOptions || len(identityHeaders(e)) != 0 {
		t.Errorf("the app got %s with %v, want OPTIONS without identity headers", e.Method, identityHeaders(e))
	}
	s.Call("hello").Method(http.MethodOptions).Gets(http.StatusUnauthorized, "invalid_key")
	// Only the request's own method makes it a preflight.
	s.Call("hello").Header("X-Forwarded-Method", "OPTIONS").Header("Access-Control-Request-Method", "GET").Gets(http.StatusUnauthorized, "invalid_key")
}

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
			t.Errorf("the app got %s: %q, want none", name, got)
		}
	}
	e = s.Echo(with(s.Call("hello").Key(k)).Gets(http.StatusOK))
	if e.Headers["Authorization"] == nil || e.Headers["X-Http-Method-Override"] == nil {
		t.Errorf("request with a key: got %v, want its headers unchanged", e.Headers)
	}
}

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

func TestMultipleKeysAreDenied(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	s.Call("hello").Key(k).Key(k).Gets(http.StatusUnauthorized, "invalid_key")
	s.Call("hello").Header("X-API-Key", "").Key(k).Gets(http.StatusUnauthorized, "invalid_key")
}

func TestBodiesAndMethods(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	// The requests are raw, because a client library would discard the body of the response.
	for status, key := range map[string]string{"200": "X-API-Key: " + k.Full + "\r\n", "401": ""} {
		response := raw(t, "HEAD / HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\n"+key+"Connection: close\r\n\r\n")
		header, body, whole := strings.Cut(response, "\r\n\r\n")
		if !whole || body != "" || !strings.HasPrefix(header, "HTTP/1.1 "+status) {
			t.Errorf("HEAD: want %s without a body, got %q", status, response)
		}
	}
	e := s.Echo(s.Call("hello").Key(k).Method(http.MethodPost).Path("/some/where?x=1").Body(bytes.Repeat([]byte("x"), 1<<20)).Gets(http.StatusOK))
	if e.Method != http.MethodPost || e.BodyBytes != 1<<20 || !strings.HasPrefix(e.Path, "/some/where") {
		t.Errorf("the app got %s %s with %d bytes, want POST /some/where with 1 MiB", e.Method, e.Path, e.BodyBytes)
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
			t.Fatalf("got %q, %v, want %q", got, err, message)
		}
	}
	options.HTTPHeader = nil
	_, res, err := websocket.Dial(ctx, url, options)
	if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: got %v, %v, want 401", res, err)
	}
}

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
		t.Errorf("first piece: got %q, status %d, %v", first, res.StatusCode, err)
	}
	firstAt := time.Now()
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Error(err)
	}
	if later := time.Since(firstAt); later < 500*time.Millisecond { // three more pieces, 0.5 s apart
		t.Errorf("last piece: got it %v after the first, want at least 500ms: the response was buffered", later)
	}
}

// raw sends bytes to the ingress and returns everything until the connection closes.
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
	response, err := io.ReadAll(conn)
	check.OK(t, err)
	return string(response)
}

// TestRawKeyHeaders sends headers that client libraries do not send.
func TestRawKeyHeaders(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	tests := []struct {
		name, header, want string
	}{
		{"plain", "X-API-Key: " + k.Full, "200"},
		{"spaces around", "X-API-Key:   " + k.Full + "  ", "200"},
		{"in another case", "x-aPi-kEy: " + k.Full, "200"},
		{"quoted", `X-API-Key: "` + k.Full + `"`, "401"},
		{"two in one header", "X-API-Key: " + k.Full + "," + k.Full, "401"},
		{"with a scheme", "X-API-Key: Bearer " + k.Full, "401"},
		{"under another name", "X_API_Key: " + k.Full, "401"},
		{"named as hop-by-hop", "X-API-Key: " + k.Full + "\r\nConnection: X-API-Key", "401"},
		{"space before the colon", "X-API-Key : " + k.Full, "400"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			response := raw(t, "GET / HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\nConnection: close\r\n"+test.header+"\r\n\r\n")
			if line, _, _ := strings.Cut(response, "\r\n"); !strings.HasPrefix(line, "HTTP/1.1 "+test.want) {
				t.Errorf("got %q, want %s", line, test.want)
			}
		})
	}
}
