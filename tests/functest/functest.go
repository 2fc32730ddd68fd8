// Package functest calls functions in unit tests and checks their responses.
package functest

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// Call is a request to a function.
type Call struct {
	Method, Path string
	Body         string
	User         string      // for functions that use [Sessions]
	From         string      // "" is the one of net/http/httptest
	Header       http.Header // Content-Type defaults to JSON
}

// Send sends the request.
func (c Call) Send(tb testing.TB, h http.Handler) Answer {
	tb.Helper()
	var body io.Reader = http.NoBody
	if c.Body != "" {
		body = strings.NewReader(c.Body)
	}
	r := httptest.NewRequestWithContext(tb.Context(), c.Method, c.Path, body)
	if _, ok := c.Header["Content-Type"]; c.Body != "" && !ok {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.User != "" {
		r.Header.Set(UserHeader, c.User)
	}
	if c.From != "" {
		r.RemoteAddr = c.From + ":1234"
	}
	maps.Copy(r.Header, c.Header)
	a := Serve(tb, h, r)
	a.Call = c
	return a
}

// Serve is [Call.Send] for requests that a Call cannot describe.
func Serve(tb testing.TB, h http.Handler, r *http.Request) Answer {
	tb.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return Answer{
		TB: tb, Call: Call{Method: r.Method, Path: r.URL.RequestURI()},
		Status: w.Code, Header: w.Header(), Body: w.Body.Bytes(),
	}
}

// Answer is the response to a call.
type Answer struct {
	testing.TB

	Call   Call
	Status int
	Header http.Header
	Body   []byte
}

// Tag returns the ETag.
func (a Answer) Tag() string { return a.Header.Get(api.ETag) }

// Text returns the body.
func (a Answer) Text() string { return string(a.Body) }

// Shows checks the status, and that the body contains the texts.
func (a Answer) Shows(status int, texts ...string) {
	a.Helper()
	if a.Status != status {
		a.Errorf("%s %s\n got %d %s\nwant %d", a.Call.Method, a.Call.Path, a.Status, a.Body, status)
	}
	for _, text := range texts {
		if !strings.Contains(a.Text(), text) {
			a.Errorf("%s %s: got a body without %q: %s", a.Call.Method, a.Call.Path, text, a.Body)
		}
	}
}

// Is ends the test unless the response has the status.
func (a Answer) Is(status int) Answer {
	a.Helper()
	if a.Status != status {
		a.Fatalf("%s %s %.200s\n got %d %s\nwant %d", a.Call.Method, a.Call.Path, a.Call.Body, a.Status, a.Body, status)
	}
	return a
}

// Refused checks the status and the problem code.
func (a Answer) Refused(status int, code problem.Code) {
	a.Helper()
	if a.Status != status || a.Code() != code {
		a.Errorf("%s %s %.200s\n got %d %s\nwant %d %s", a.Call.Method, a.Call.Path, a.Call.Body, a.Status, a.Body, status, code)
	}
}

// Code returns the problem code of the response, or "".
func (a Answer) Code() problem.Code {
	var e wire.Error
	if json.Unmarshal(a.Body, &e) != nil || e.Message == "" {
		return ""
	}
	return problem.Code(e.Code)
}

// Into decodes the response. It ends the test if the status differs or a field is unknown.
func (a Answer) Into(status int, v any) {
	a.Helper()
	a.Is(status)
	d := json.NewDecoder(bytes.NewReader(a.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		a.Fatalf("%s %s: %s: %v", a.Call.Method, a.Call.Path, a.Body, err)
	}
}

// Read is [Answer.Into] for a new value.
func Read[T any](a Answer, status int) T {
	a.Helper()
	var v T
	a.Into(status, &v)
	return v
}

// Quiet returns a logger without output.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Log is a log that can be read while it is written.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Logger returns a JSON logger for all levels.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns the content.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
