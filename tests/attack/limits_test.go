package attack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestOversizeHeaders: headers as large as the parties in the way take, and larger.
func TestOversizeHeaders(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "headers of 70 KiB, 900 KiB and 2 MiB, in one and in 10 000 fields, to the gate, the API and a checker itself",
		"401 or 431 (400, 413), never the app and never a 5xx; the next request is served")
	s, k := gated(t)
	targets := map[string]string{
		"gate":    "GET / HTTP/1.1\r\nHost: " + s.Host("hello"),
		"API":     "GET /api/v1/session HTTP/1.1\r\nHost: " + hostOf(t, world.Info().BaseURL),
		"checker": "GET /check/" + s.Project + "-prod/hello HTTP/1.1\r\nHost: x\r\nX-Forwarded-Method: GET",
	}
	n := 0
	for name, head := range targets {
		for _, size := range []int{70 << 10, 900 << 10, 2 << 20} {
			for _, fields := range []int{1, 10_000} {
				line := "\r\nX-Api-Key2: " + strings.Repeat("k", size/fields)
				address := atIngress()
				if name == "checker" {
					address = atChecker()
				}
				n++
				got := raw(t, address, head+strings.Repeat(line, fields)+"\r\nConnection: close\r\n\r\n")
				for _, a := range answers(t, got) {
					if a.Status != 401 && a.Status != 431 && a.Status != 400 && a.Status != 413 {
						t.Errorf("%s, %d bytes in %d fields: %d %.100s", name, size, fields, a.Status, a.Body)
					}
				}
			}
		}
	}
	s.Call("hello").Key(k).Gets(http.StatusOK)
	row.Measured(fmt.Sprintf("%d", n))
}

// endless is a body that never ends; it counts what was taken of it.
type endless struct{ taken atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.taken.Add(int64(len(p)))
	return len(p), nil
}

// TestOversizeBodies: bodies above the limits, declared and not.
func TestOversizeBodies(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "bodies just above the limit, of 10 GB by their `Content-Length`, and without end, to the API and the webhook",
		"413 `body_too_large` before much of it has been taken, or the connection ends; nothing is stored")
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	admin := bearer(t, world.Info().Admin.Username, world.Info().Admin.Password)
	plans := world.Info().BaseURL + "/api/v1/projects/" + s.Project + "/environments/prod/plans"
	targets := map[string]struct {
		url   string
		limit int
	}{"API": {plans, 64 << 10}, "webhook": {url, 1 << 20}}
	most := int64(0)
	for name, target := range targets {
		for size, over := range map[int]bool{target.limit: false, target.limit + 1: true} {
			a, err := do(t, post(t, target.url, admin, token, strings.NewReader("{"+strings.Repeat(" ", size-2)+"}")))
			if err != nil || (a.Code() == "body_too_large") != over {
				t.Errorf("%s, %d bytes: %d %s, %v", name, size, a.Status, a.Body, err)
			}
		}
		body := &endless{}
		a, err := do(t, post(t, target.url, admin, token, body))
		if err == nil && a.Code() != "body_too_large" || body.taken.Load() > 64<<20 {
			t.Errorf("%s, endless: %d %s, %v, %d bytes taken", name, a.Status, a.Body, err, body.taken.Load())
		}
		most = max(most, body.taken.Load())
		declared := post(t, target.url, admin, token, io.LimitReader(&endless{}, 10<<30))
		declared.ContentLength = 10 << 30
		if a, err := do(t, declared); err == nil && a.Code() != "body_too_large" {
			t.Errorf("%s, 10 GB declared: %d %s", name, a.Status, a.Body)
		}
	}
	s.OnlyHas(0, 0, 1)
	row.Measured(fmt.Sprintf("8; at most %d KiB taken", most>>10))
}

func post(t *testing.T, url, bearer, token string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	check.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("X-Service-Token", token)
	return req
}

// crowd is how many slow clients there are at once.
const crowd = 200

// TestSlowClients: half a header and half a body, from many connections at once, at
// the functions themselves, at a checker and through the ingress.
func TestSlowClients(t *testing.T) {
	stacktest.Insides(t, "its functions have shorter limits")
	t.Parallel()
	row := attacks.Test(t, "200 slow clients each: half a header and half a body at a function, at a checker, and through the ingress",
		"functions and checkers end them within their limits; others are served meanwhile")
	s, k := gated(t)
	base := hostOf(t, world.Info().BaseURL)
	plans := "POST /api/v1/projects/" + s.Project + "/environments/prod/plans HTTP/1.1\r\nHost: "
	rest := "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	tests := []struct {
		name, address, sent string
		ends                time.Duration // 0: the ingress's affair
	}{
		{"header at a function", atFunction("keys"), "GET /api/v1/projects HTTP/1.1\r\nHost: x\r\nX-A: ", headerLimit},
		{"nothing at a function", atFunction("keys"), "", headerLimit},
		{"body at a function", atFunction("keys"), plans + "x" + rest, readLimit},
		{"header at a checker", atChecker(), "GET /check/a/b HTTP/1.1\r\nHost: x\r\nX-A: ", headerLimit},
		{"body through the ingress", atIngress(), plans + base + rest, 0},
		{"header through the ingress", atIngress(), "GET / HTTP/1.1\r\nHost: " + s.Host("hello") + "\r\nX-A: ", 0},
	}
	slowest := time.Duration(0)
	for _, test := range tests {
		conns := make([]net.Conn, crowd)
		for i := range conns {
			conns[i] = dial(t, test.address)
			if _, err := io.WriteString(conns[i], test.sent); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		s.Call("hello").Key(k).Gets(http.StatusOK)
		if a := call(t, request{path: "/api/v1/projects/" + s.Project + "/api-keys"}); a.Status != http.StatusUnauthorized {
			t.Errorf("%s: beside it the API answers %d", test.name, a.Status)
		}
		slowest = max(slowest, time.Since(begin))
		if test.ends == 0 {
			for _, c := range conns {
				_ = c.Close()
			}
			continue
		}
		for _, c := range conns { // each has a deadline of its own; the limits are far below
			if _, err := io.ReadAll(c); err != nil && !closed(err) {
				t.Fatalf("%s: still open after %v: %v", test.name, time.Since(begin), err)
			}
		}
		if took := time.Since(begin); took < test.ends/2 {
			t.Errorf("%s: ended after %v: that was not the limit", test.name, took)
		}
	}
	row.Measured(fmt.Sprintf("%d connections; beside them two calls took at most %v", crowd*len(tests), slowest.Round(time.Millisecond)))
}
