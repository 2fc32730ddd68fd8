package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func testMux() (*Mux, *bytes.Buffer) {
	var log bytes.Buffer
	return New(slog.New(slog.NewJSONHandler(&log, nil))), &log
}

func ask(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code problem.Code) {
	t.Helper()
	var e wire.Error
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatalf("response %d %q: %v", w.Code, w.Body, err)
	}
	if w.Code != status || problem.Code(e.Code) != code || e.Message == "" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("response: got %d %s %s, want %d %s", w.Code, w.Body, w.Header(), status, code)
	}
}

func TestSecretInURL(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdefghijABCDEFGHIJ01234567"
	const key, token = "sluice_ab12cd34_" + secret, "sluice_st_ab12cd34ef56_" + secret
	for _, target := range []string{
		"/keys/" + key, "/nowhere/x" + key + "x", "/keys/a?search=" + key, "/keys/a?search=%73luice_ab12cd34%5f" + secret, "/keys/a?x=%zz&search=" + key,
		"/keys/" + token, "/keys/a?" + token, "/keys/" + key[:len(key)-6],
	} {
		m, log := testMux()
		m.Handle("GET /keys/{id}", func(http.ResponseWriter, *http.Request) error {
			t.Errorf("%s reached the handler", target)
			return nil
		})
		wantProblem(t, ask(m, http.MethodGet, target), http.StatusBadRequest, problem.SecretInURL)
		if strings.Contains(log.String(), secret[:20]) || !strings.Contains(log.String(), "[redacted]") {
			t.Errorf("log of %s: got %s", target, log)
		}
	}
	m, _ := testMux()
	m.Handle("GET /keys/{id}", func(w http.ResponseWriter, _ *http.Request) error { return WriteJSON(w, http.StatusOK, struct{}{}) })
	for _, target := range []string{"/keys/key-ab12cd34", "/keys/sluice_ab12cd34", "/keys/a?search=sluice_internal_tools"} {
		if w := ask(m, http.MethodGet, target); w.Code != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", target, w.Code, w.Body)
		}
	}
}

func TestEveryProblemIsAnswered(t *testing.T) {
	t.Parallel()
	for _, row := range problem.Table() {
		t.Run(string(row.Code), func(t *testing.T) {
			t.Parallel()
			m, log := testMux()
			m.Handle("GET /x", func(http.ResponseWriter, *http.Request) error {
				return fmt.Errorf("do it: %w", problem.FromCode(row.Code).WithCause(errors.New("the cause")))
			})
			w := ask(m, "GET", "/x")
			wantProblem(t, w, row.Status, row.Code)
			wantAfter := ""
			if row.RetryAfter > 0 {
				wantAfter = strconv.Itoa(int(row.RetryAfter / time.Second))
			}
			if got := w.Header().Get("Retry-After"); got != wantAfter {
				t.Errorf("Retry-After: got %q, want %q", got, wantAfter)
			}
			if got := w.Header().Get("WWW-Authenticate"); (got != "") != (row.Status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate: got %q", got)
			}
			if strings.Contains(w.Body.String(), "cause") || strings.Contains(w.Body.String(), "do it") {
				t.Errorf("response contains the cause: %s", w.Body)
			}
			if n := strings.Count(log.String(), "the cause"); row.Status >= 500 && n != 1 || row.Status < 500 && n != 0 {
				t.Errorf("cause in the log: got %d times:\n%s", n, log)
			}
		})
	}
}

func TestAnyOtherErrorIsInternal(t *testing.T) {
	t.Parallel()
	m, log := testMux()
	m.Handle("GET /x", func(http.ResponseWriter, *http.Request) error { return errors.New("secret detail") })
	w := ask(m, "GET", "/x")
	wantProblem(t, w, 500, problem.Internal)
	if strings.Contains(w.Body.String(), "secret") || !strings.Contains(log.String(), "secret detail") {
		t.Errorf("detail: want it only in the log, got response %s, log\n%s", w.Body, log)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	m, log := testMux()
	m.Handle("GET /early", func(http.ResponseWriter, *http.Request) error { panic("boom") })
	m.Handle("GET /late", func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusAccepted)
		panic("boom")
	})
	m.Handle("GET /abort", func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) })
	w := ask(m, "GET", "/early")
	wantProblem(t, w, 500, problem.Internal)
	if strings.Contains(w.Body.String(), "boom") || !strings.Contains(log.String(), `"value":"boom"`) || !strings.Contains(log.String(), "mux_test.go") {
		t.Errorf("panic and stack: want them only in the log, got response %s, log\n%s", w.Body, log)
	}
	if m.Panics() != 1 {
		t.Errorf("panics: got %d", m.Panics())
	}
	if w := ask(m, "GET", "/late"); w.Code != http.StatusAccepted || w.Body.Len() != 0 {
		t.Errorf("panic after the response started: got %d %q", w.Code, w.Body)
	}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // the same value
			t.Errorf("recovered: got %v, want http.ErrAbortHandler", v)
		}
	}()
	ask(m, "GET", "/abort")
}

func TestRouting(t *testing.T) {
	t.Parallel()
	m, _ := testMux()
	hello := func(w http.ResponseWriter, r *http.Request) error {
		return WriteJSON(w, http.StatusOK, map[string]string{"name": r.PathValue("name")})
	}
	m.Handle("GET /api/v1/things/{name}", hello)
	m.Handle("DELETE /api/v1/things/{name}", hello)
	m.Handle("GET /api/v1/things/{name}/parts", hello)
	tests := []struct {
		name, method, path string
		status             int
		code               problem.Code // "" for the handler's response
	}{
		{"it", "GET", "/api/v1/things/a", 200, ""},
		{"its head", "HEAD", "/api/v1/things/a", 200, ""},
		{"deeper", "GET", "/api/v1/things/a/parts", 200, ""},
		{"another path", "GET", "/api/v1/nothing", 404, problem.NotFound},
		{"the root", "GET", "/", 404, problem.NotFound},
		{"a trailing slash", "GET", "/api/v1/things/a/", 404, problem.NotFound},
		{"two slashes", "GET", "/api/v1//things/a", 404, problem.NotFound},
		{"an empty name", "GET", "/api/v1/things//parts", 404, problem.NotFound},
		{"dots", "GET", "/api/v1/things/../things/a", 404, problem.NotFound},
		{"dots at the end", "GET", "/api/v1/things/a/..", 404, problem.NotFound},
		{"another case", "GET", "/API/v1/things/a", 404, problem.NotFound},
		{"another case below", "GET", "/api/v1/Things/a", 404, problem.NotFound},
		{"NUL", "GET", "/api/v1/nothing\x00", 404, problem.NotFound},
		{"a long one", "GET", "/api/v1/" + strings.Repeat("a", 32<<10), 404, problem.NotFound},
		{"no path", "GET", "", 404, problem.NotFound},
		{"no path to connect to", "CONNECT", "", 404, problem.NotFound},
		{"another method", "POST", "/api/v1/things/a", 405, problem.MethodNotAllowed},
		{"an odd method", "PURGE", "/api/v1/things/a", 405, problem.MethodNotAllowed},
		{"a method in lower case", "get", "/api/v1/things/a", 405, problem.MethodNotAllowed},
		{"CONNECT", "CONNECT", "/api/v1/things/a", 405, problem.MethodNotAllowed},
		{"TRACE", "TRACE", "/api/v1/things/a", 405, problem.MethodNotAllowed},
		{"an odd method elsewhere", "PURGE", "/api/v1/nothing", 404, problem.NotFound},
		{"another method deeper", "DELETE", "/api/v1/things/a/parts", 405, problem.MethodNotAllowed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := ask(m, tt.method, tt.path)
			if tt.code != "" {
				wantProblem(t, w, tt.status, tt.code)
			} else if w.Code != tt.status {
				t.Errorf("response: got %d %s", w.Code, w.Body)
			}
			if got := w.Header().Get("Location"); got != "" {
				t.Errorf("Location: got %q, want none", got)
			}
			if w.Header().Get(reqctx.Header) == "" || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("headers: got %v", w.Header())
			}
			if allow := w.Header().Get("Allow"); (allow != "") != (tt.status == 405) {
				t.Errorf("Allow: got %q", allow)
			}
		})
	}
	if got := ask(m, "POST", "/api/v1/things/a").Header().Get("Allow"); got != "DELETE, GET, HEAD" {
		t.Errorf("Allow: got %q", got)
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	m, log := testMux()
	m.Handle("GET /x", func(w http.ResponseWriter, r *http.Request) error {
		return WriteJSON(w, http.StatusOK, reqctx.ID(r.Context()))
	})
	tests := []struct {
		name, sent string
		kept       bool
	}{
		{"none", "", false},
		{"a plain one", "abc-DEF_123", true},
		{"64 characters", strings.Repeat("a", 64), true},
		{"65 characters", strings.Repeat("a", 65), false},
		{"a space", "a b", false},
		{"a quote", `a"b`, false},
		{"not ASCII", "ä", false},
		{"a line break", "a\nb", false},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		w := ask(m, "GET", "/x", reqctx.Header, tt.sent)
		id := w.Header().Get(reqctx.Header)
		if (id == tt.sent) != tt.kept || len(id) < 11 || seen[id] {
			t.Errorf("%s: sent %q, got %q", tt.name, tt.sent, id)
		}
		seen[id] = true
		if want := strconv.Quote(id) + "\n"; w.Body.String() != want {
			t.Errorf("%s: handler got %s, want %s as in the response", tt.name, w.Body, want)
		}
		if !strings.Contains(log.String(), `"request_id":"`+id+`"`) {
			t.Errorf("%s: got no %s in the log", tt.name, id)
		}
	}
	if got := reqctx.ID(t.Context()); got != "" {
		t.Errorf("ID outside a request: got %q", got)
	}
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	m, log := testMux()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m.now = func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	m.Handle("GET /x", func(w http.ResponseWriter, r *http.Request) error {
		reqctx.SetActor(r.Context(), reqctx.Actor{Kind: reqctx.User, Name: "ada"})
		_, err := w.Write([]byte("hello"))
		return err
	})
	ask(m, "GET", "/x?token=secret", reqctx.Header, "r1", "Authorization", "Bearer secret", "Cookie", "a=secret")
	var line map[string]any
	check.OK(t, json.Unmarshal(log.Bytes(), &line))
	delete(line, "time")
	want := map[string]any{
		"level": "INFO", "msg": "request", "request_id": "r1", "method": "GET", "path": "/x", "actor": "ada",
		"status": 200.0, "bytes": 5.0, "took": 1e9,
	}
	check.Equal(t, "log line", want, line)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	m, _ := testMux()
	m.Handle("GET /json", func(w http.ResponseWriter, _ *http.Request) error { return WriteJSON(w, http.StatusCreated, []int{1}) })
	m.Handle("GET /none", noContent)
	m.Handle("GET /bad", func(w http.ResponseWriter, _ *http.Request) error { return WriteJSON(w, http.StatusOK, func() {}) })
	w := ask(m, "GET", "/json")
	if w.Code != http.StatusCreated || w.Body.String() != "[1]\n" || w.Header().Get("Content-Type") != "application/json" ||
		w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("response: got %d %q %v", w.Code, w.Body, w.Header())
	}
	if w := ask(m, "GET", "/none"); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
		t.Errorf("response: got %d %q", w.Code, w.Body)
	}
	wantProblem(t, ask(m, "GET", "/bad"), 500, problem.Internal)
}

func TestFlushReachesTheConnection(t *testing.T) {
	t.Parallel()
	m, _ := testMux()
	m.Handle("GET /x", func(w http.ResponseWriter, _ *http.Request) error {
		return http.NewResponseController(w).Flush()
	})
	if w := ask(m, "GET", "/x"); !w.Flushed {
		t.Errorf("flush: got %d %s", w.Code, w.Body)
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	m, log := testMux()
	m.Handle("GET /things/{name}", noContent)
	m.Mount("POST /events/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	check.Equal(t, "routes", []string{"GET /things/{name}", "POST /events/"}, m.Routes())
	for _, tt := range []struct {
		method, path, pattern string
		status                int
	}{
		{"GET", "/things/a", "GET /things/{name}", 204},
		{"GET", "/things/b", "GET /things/{name}", 204},
		{"HEAD", "/things/b", "GET /things/{name}", 204},
		{"DELETE", "/things/a", "", 405},
		{"GET", "/other", "", 404},
		{"GET", "/things/../things/a", "", 404},
		{"POST", "/events/secret", "POST /events/", 202},
		{"POST", "/events//secret", "", 404},
		{"GET", "/events/secret", "", 404},
	} {
		r := httptest.NewRequest(tt.method, "/", nil)
		r.URL.Path = tt.path
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		if r.Pattern != tt.pattern || w.Code != tt.status {
			t.Errorf("%s %s: got %d by %q, want %d by %q", tt.method, tt.path, w.Code, r.Pattern, tt.status, tt.pattern)
		}
	}
	if strings.Contains(log.String(), `"path":"/events/secret","actor":"","status":202`) {
		t.Errorf("got a mounted path in the log:\n%s", log)
	}
}

func noContent(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}
