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

func TestOversizeHeaders(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "headers of 70 KiB, 900 KiB and 2 MiB, in 1 and 10,000 fields",
		"400, 401, 413 or 431, never the app or 5xx; the next request is served")
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
						t.Errorf("%s, %d bytes in %d fields: got %d %.100s", name, size, fields, a.Status, a.Body)
					}
				}
			}
		}
	}
	s.Call("hello").Key(k).Gets(http.StatusOK)
	row.Measured(fmt.Sprintf("%d", n))
}

type endless struct{ taken atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.taken.Add(int64(len(p)))
	return len(p), nil
}

func TestOversizeBodies(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "bodies just above the limit, with 10 GB declared, and without end",
		"413 `body_too_large`, or the connection is closed early; nothing stored")
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
			t.Errorf("%s, endless: got %d %s, %v, %d bytes read", name, a.Status, a.Body, err, body.taken.Load())
		}
		most = max(most, body.taken.Load())
		declared := post(t, target.url, admin, token, io.LimitReader(&endless{}, 10<<30))
		declared.ContentLength = 10 << 30
		if a, err := do(t, declared); err == nil && a.Code() != "body_too_large" {
			t.Errorf("%s, 10 GB declared: got %d %s", name, a.Status, a.Body)
		}
	}
	s.OnlyHas(0, 0, 1)
	row.Measured(fmt.Sprintf("8; at most %d KiB read", most>>10))
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

const crowd = 200

func TestSlowClients(t *testing.T) {
	stacktest.Insides(t, "its functions have shorter limits")
	t.Parallel()
	row := attacks.Test(t, "200 slow clients each at a function, a checker and the ingress (half a header, half a body)",
		"functions and checkers close them within their limits; others are served")
	s, k := gated(t)
	base := hostOf(t, world.Info().BaseURL)
	plans := "POST /api/v1/projects/" + s.Project + "/environments/prod/plans HTTP/1.1\r\nHost: "
	rest := "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	tests := []struct {
		name, address, sent string
		ends                time.Duration // 0: the ingress sets the limit
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
			t.Errorf("%s: API call: got %d, want %d", test.name, a.Status, http.StatusUnauthorized)
		}
		slowest = max(slowest, time.Since(begin))
		if test.ends == 0 {
			for _, c := range conns {
				_ = c.Close()
			}
			continue
		}
		for _, c := range conns { // each connection has a deadline far above the limits
			if _, err := io.ReadAll(c); err != nil && !closed(err) {
				t.Fatalf("%s: still open after %v: %v", test.name, time.Since(begin), err)
			}
		}
		if took := time.Since(begin); took < test.ends/2 {
			t.Errorf("%s: ended after %v, want about %v", test.name, took, test.ends)
		}
	}
	row.Measured(fmt.Sprintf("%d connections; other calls took at most %v", crowd*len(tests), slowest.Round(time.Millisecond)))
}
