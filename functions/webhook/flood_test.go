package webhook

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// Calls with made-up names or tokens cause few API server requests.
func TestRefusedFromMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const calls = 2000
	for i := range calls {
		address := fmt.Sprintf("made-up-%d/hello", i)
		if i%2 == 0 {
			address = hello
		}
		got := w.call(address, `{}`).with(hook.TokenHeader, strings.Repeat("A", 43)).sentFrom(fmt.Sprintf("203.0.113.%d", i%250)).send()
		got.Refused(http.StatusUnauthorized, "invalid_token")
	}
	if n := w.tokens.questions(); n > calls/20 {
		t.Errorf("got %d API server requests for %d calls", n, calls)
	}
	for i := range calls {
		w.call(fmt.Sprintf("made-up-%d/hello", i), `{}`).sentFrom("198.51.100.7").send()
	}
	for _, address := range []string{hello, quiet, "nowhere-prod/hello"} {
		w.call(address, `{}`).sentFrom("198.51.100.7").refused(http.StatusTooManyRequests, "rate_limited")
	}
	w.call(hello, `{}`).sentFrom("198.51.100.8").refused(http.StatusUnauthorized, "invalid_token")
	// Verified calls from the same address are accepted.
	w.ci(hello, `{"image":"`+image2+`"}`).sentFrom("198.51.100.7").
		is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
	w.provider(site, "ping", `{}`).sentFrom("198.51.100.7").is(http.StatusOK, wire.WebhookPong{Status: "pong"})
}

func TestRotatedTokenIsAcceptedBeforeWatchEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"image":"` + image2 + `"}`
	old := w.ci(hello, body)
	w.tokens.set(refOf(hello), hook.Token(strings.Repeat("A", 43)), false)
	old.refused(http.StatusUnauthorized, "invalid_token")
	w.ci(hello, body).is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
	signed := w.call(hello, body).with(hook.SignatureHeader, sign(w.token(hello), body))
	signed.is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 3, Image: image2})
	w.tokens.set(refOf(hello), "", false)
	signed.refused(http.StatusUnauthorized, "invalid_token")
	old.refused(http.StatusUnauthorized, "invalid_token")
}

func TestAPIServerDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.states()
	w.tokens.down = true
	w.ci(hello, `{"image":"`+image2+`"}`).refused(http.StatusServiceUnavailable, "unavailable")
	w.call(hello, `{}`).with(hook.TokenHeader, strings.Repeat("A", 43)).refused(http.StatusUnauthorized, "invalid_token")
	w.tokens.synced = make(chan struct{}) // as if the first list never arrived
	w.service.started = time.Now().Add(-syncPatience)
	w.ci(hello, `{"image":"`+image2+`"}`).refused(http.StatusServiceUnavailable, "unavailable")
	w.call(hello, `{}`).refused(http.StatusUnauthorized, "invalid_token") // no token
	w.untouched(before)
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read before the token was verified")
	return 0, io.EOF
}

func TestBodyIsReadForTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, token := range []string{strings.Repeat("A", 43), w.token(site), "", "none"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/webhook/"+hello, unread{t})
		if token != "none" {
			r.Header.Set(hook.TokenHeader, token)
			r.Header.Set(hook.SignatureHeader, sign(w.token(hello), ""))
		}
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		if rec.Code != http.StatusUnauthorized {
			t.Errorf("token %q: %d", token, rec.Code)
		}
	}
}

func TestSlowBodies(t *testing.T) {
	w := newWorld(t) // not parallel: it measures the heap
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.handler.ServeHTTP(rw, r.WithContext(reqctx.Begin(r.Context(), reqctx.Request{ID: "r1", Address: reqctx.Forwarded(r.Header)})))
	}))
	t.Cleanup(server.Close)
	const connections = 300
	before := heap()
	var open []net.Conn
	t.Cleanup(func() {
		for _, c := range open {
			_ = c.Close()
		}
	})
	var sent sync.WaitGroup
	for i := range connections {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		check.OK(w, err)
		open = append(open, c)
		sent.Go(func() {
			head := fmt.Sprintf("POST /api/v1/webhook/%s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-Forwarded-For: 203.0.113.%d\r\n", hello, i%250)
			head += fmt.Sprintf("X-Hub-Signature-256: sha256=%064d\r\nContent-Length: %d\r\n\r\n", 0, maxBody)
			_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
			_, _ = c.Write(append([]byte(head), bytes.Repeat([]byte(" "), maxBody-1)...)) // one byte short
		})
	}
	sent.Wait()
	held := w.service.signedBodies.Held()
	if held > heldBodies {
		t.Errorf("buffered bytes: got %d, want at most %d", held, heldBodies)
	}
	// Buffers that have just been replaced or rejected are garbage soon, but not at once.
	check.Eventually(w, "small heap", 3*time.Second, func() error {
		if grown := int(heap()) - int(before); grown > 3*heldBodies {
			return fmt.Errorf("got a growth of %d MiB, want at most %d MiB", grown>>20, 3*heldBodies>>20)
		}
		return nil
	})
	w.ci(hello, `{"image":"`+image2+`"}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
	t.Logf("%d connections: %d KiB of bodies, heap grown by %d KiB", connections, held>>10, (int(heap())-int(before))>>10)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
