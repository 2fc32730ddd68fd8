package workloads

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"

	"github.com/sluicegate/sluice/emulators/internal/ports"
	"github.com/sluicegate/sluice/tests/check"
)

var testPod = Pod{App: "hello", Namespace: "shop-prod", Image: "registry.example/hello:v1", Revision: "7"}

func serveTest(t *testing.T) (*backend, string) {
	t.Helper()
	free, err := ports.Free(t.Context(), 1)
	check.OK(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(free[0]))
	b, err := listen(t.Context(), address, testPod, slog.New(slog.DiscardHandler))
	check.OK(t, err)
	t.Cleanup(b.close)
	return b, address
}

// wire is a connection for HTTP by hand.
type wire struct {
	net.Conn
	responses *bufio.Reader
}

func dialTest(t *testing.T, address string) *wire {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", address)
	check.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	check.OK(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return &wire{c, bufio.NewReader(c)}
}

func (w *wire) say(t *testing.T, texts ...string) (int, Echo) {
	t.Helper()
	for _, text := range texts {
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := http.ReadResponse(w.responses, nil)
	check.OK(t, err)
	defer resp.Body.Close()
	var e Echo
	body, err := io.ReadAll(resp.Body)
	check.OK(t, err)
	if len(body) > 0 {
		if err := json.Unmarshal(body, &e); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
	}
	return resp.StatusCode, e
}

func TestEchoShowsHeadersAsSent(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	tests := []struct {
		name  string
		texts []string
		want  Echo
	}{
		{
			name:  "aliases, case and duplicates",
			texts: []string{"GET /a?b=c HTTP/1.1\r\nHost: h\r\nx_service_key_prefix: 1\r\nX-SERVICE-key-Name: 2\r\nX-Service-Key-Name:3\r\nX-SERVICE-key-Name: \t4 \r\n\r\n"},
			want: Echo{Method: "GET", Path: "/a?b=c", Headers: map[string][]string{
				"Host": {"h"}, "x_service_key_prefix": {"1"}, "X-SERVICE-key-Name": {"2", "4"}, "X-Service-Key-Name": {"3"},
			}},
		},
		{
			name:  "a header section in parts",
			texts: []string{"GET / HTTP/1.1\r\nHo", "st: h\r\nA: 1\r", "\n\r", "\n"},
			want:  Echo{Method: "GET", Path: "/", Headers: map[string][]string{"Host": {"h"}, "A": {"1"}}},
		},
		{
			name:  "a body",
			texts: []string{"POST //x/../y HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", "12345"},
			want:  Echo{Method: "POST", Path: "//x/../y", Headers: map[string][]string{"Host": {"h"}, "Content-Length": {"5"}}, BodyBytes: 5},
		},
		{
			name:  "a body that looks like a request",
			texts: []string{"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 22\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"},
			want:  Echo{Method: "PUT", Path: "/", Headers: map[string][]string{"Host": {"h"}, "Content-Length": {"22"}}, BodyBytes: 22},
		},
		{
			name:  "a chunked body",
			texts: []string{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n", "0\r\n\r\n"},
			want:  Echo{Method: "POST", Path: "/", Headers: map[string][]string{"Host": {"h"}, "Transfer-Encoding": {"chunked"}}, BodyBytes: 3},
		},
		{
			name:  "trailers",
			texts: []string{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n0\r\nX-Trailer: 1\r\n\r\n"},
			want: Echo{
				Method: "POST", Path: "/", Headers: map[string][]string{"Host": {"h"}, "Transfer-Encoding": {"chunked"}}, BodyBytes: 1,
				Trailers: map[string][]string{"X-Trailer": {"1"}},
			},
		},
	}
	// A response must not contain headers of an earlier request on the same connection.
	one := dialTest(t, address)
	for _, tt := range tests {
		tt.want.App, tt.want.Namespace, tt.want.Image, tt.want.Revision = testPod.App, testPod.Namespace, testPod.Image, testPod.Revision
		for name, w := range map[string]*wire{tt.name: dialTest(t, address), tt.name + ", kept alive": one} {
			t.Run(name, func(t *testing.T) {
				status, got := w.say(t, tt.texts...)
				if diff := cmp.Diff(tt.want, got); status != http.StatusOK || diff != "" {
					t.Errorf("got status %d, want 200; echo (-want +got):\n%s", status, diff)
				}
			})
		}
	}
}

// TestRefusedSocketLeavesConnection checks the connection after a request to /ws that is not a
// handshake.
func TestRefusedSocketLeavesConnection(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	w := dialTest(t, address)
	if _, err := io.WriteString(w, "OPTIONS /ws HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(w.responses, nil)
	check.OK(t, err)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if status, got := w.say(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); status != http.StatusOK || got.Method != http.MethodGet {
		t.Errorf("got status %d, echo %+v, want 200 to GET", status, got)
	}
}

func TestPipelinedRequestIsRejected(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	w := dialTest(t, address)
	if _, err := io.WriteString(w, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\nA: 2\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{http.StatusOK, http.StatusInternalServerError} {
		if status, _ := w.say(t); status != want {
			t.Fatalf("got status %d, want %d", status, want)
		}
	}
}

func TestLargeBodyIsCounted(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	const size = 5 << 20
	status, e := dialTest(t, address).say(t,
		fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size), strings.Repeat("x", size))
	if status != http.StatusOK || e.BodyBytes != size {
		t.Errorf("got status %d, %d bytes, want 200, %d", status, e.BodyBytes, size)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	for path, want := range map[string]int{
		"/status/200": 200, "/status/204": 204, "/status/418": 418, "/status/503": 503,
		"/status/100": 400, "/status/600": 400, "/status/x": 400,
	} {
		if got, _ := dialTest(t, address).say(t, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"); got != want {
			t.Errorf("%s: got status %d, want %d", path, got, want)
		}
	}
}

func stream(t *testing.T, address, query string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/stream?"+query, nil)
	check.OK(t, err)
	resp, err := http.DefaultClient.Do(req)
	check.OK(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp.Body
}

func TestStreamIsFlushed(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	first := make([]byte, 8)
	if _, err := io.ReadFull(stream(t, address, "chunks=3&interval=10s"), first); err != nil || string(first) != "chunk 1\n" {
		t.Errorf("got first chunk %q, %v, want \"chunk 1\\n\"", first, err)
	}
}

func TestStreamChunks(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	body, err := io.ReadAll(stream(t, address, "chunks=4&interval=1ms"))
	if want := "chunk 1\nchunk 2\nchunk 3\nchunk 4\n"; err != nil || string(body) != want {
		t.Errorf("got body %q, %v, want %q", body, err, want)
	}
}

func TestSocketEchoes(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	c, _, err := websocket.Dial(t.Context(), "ws://"+address+"/ws", nil)
	check.OK(t, err)
	for _, text := range []string{"one", "two"} {
		check.OK(t, c.Write(t.Context(), websocket.MessageText, []byte(text)))
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != text {
			t.Errorf("echo of %q: got %q, %v", text, got, err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
}

func TestBackendSwitchesPods(t *testing.T) {
	t.Parallel()
	b, address := serveTest(t)
	w := dialTest(t, address)
	next := testPod
	next.Image, next.Revision = "registry.example/hello:v2", "8"
	b.pod.Store(&next)
	if _, e := w.say(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); e.Image != next.Image || e.Revision != next.Revision {
		t.Errorf("got image %q, revision %q, want %q, %q", e.Image, e.Revision, next.Image, next.Revision)
	}
}

func TestUpgradeToHTTP2(t *testing.T) {
	t.Parallel()
	_, address := serveTest(t)
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		w := dialTest(t, address)
		if _, err := io.WriteString(w, method+" /any HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(w.responses, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %v, %v, want status 101", res, err)
		}
		_ = res.Body.Close()
		c, err := (&http2.Transport{}).NewClientConn(readAhead{w, w.responses}) //nolint:staticcheck // net/http cannot use an existing connection
		check.OK(t, err)
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h/a?b=c", strings.NewReader("12345"))
			check.OK(t, err)
			req.Header = http.Header{"X-Service-Key-Name": {"any"}}
			res, err := c.RoundTrip(req)
			check.OK(t, err)
			var e Echo
			if err := json.NewDecoder(res.Body).Decode(&e); err != nil || e.Path != "/a?b=c" || e.BodyBytes != 5 || e.Headers["x-service-key-name"][0] != "any" {
				t.Errorf("got echo %+v, %v", e, err)
			}
			_ = res.Body.Close()
		}
	}
}
