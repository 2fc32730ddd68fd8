package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Handler answers a request or returns an error, never both. An error without a
// problem in its chain is answered as 500 "internal", its cause logged.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Mux routes requests to handlers by net/http's patterns and answers everything
// else, unknown paths and methods included, in the API's own form.
type Mux struct {
	mux *http.ServeMux
	log *slog.Logger
	now func() time.Time
}

// New makes an empty Mux that logs each request to log.
func New(log *slog.Logger) *Mux {
	now := time.Now // the clock in production
	return &Mux{mux: http.NewServeMux(), log: log, now: now}
}

// Handle registers h for a pattern such as "GET /api/v1/projects/{project}".
func (m *Mux) Handle(pattern string, h Handler) {
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			m.fail(w, r, err)
		}
	})
}

// ServeHTTP implements [http.Handler].
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := m.now()
	id := requestID(r)
	r = r.WithContext(withRequestID(r.Context(), id))
	rec := &recorder{ResponseWriter: w}
	rec.Header().Set(RequestIDHeader, id)
	rec.Header().Set("Cache-Control", "no-store")
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	defer func() { //nolint:contextcheck // the request holds it
		if v := recover(); v != nil {
			m.recovered(rec, r, v)
		}
		m.log.LogAttrs(r.Context(), slog.LevelInfo, "request",
			slog.String("request_id", id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", rec.status()), slog.Int64("bytes", rec.bytes), slog.Duration("took", m.now().Sub(start)))
	}()
	m.route(rec, r)
}

// route dispatches, but answers in JSON where ServeMux would answer in plain
// text (no such path, wrong method) or redirect (unclean paths).
func (m *Mux) route(w http.ResponseWriter, r *http.Request) {
	h, pattern := m.mux.Handler(r)
	if path.Clean(r.URL.Path) != r.URL.Path {
		m.fail(w, r, problem.Of(problem.NotFound))
		return
	}
	if pattern != "" {
		m.mux.ServeHTTP(w, r)
		return
	}
	probe := &recorder{ResponseWriter: discard{header: http.Header{}}}
	h.ServeHTTP(probe, r)
	if probe.status() == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.Header().Get("Allow"))
		m.fail(w, r, problem.Of(problem.MethodNotAllowed))
		return
	}
	m.fail(w, r, problem.Of(problem.NotFound))
}

// recovered answers a panic. ErrAbortHandler goes on, as net/http means it.
func (m *Mux) recovered(w *recorder, r *http.Request, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	m.log.ErrorContext(r.Context(), "panic", "request_id", RequestID(r.Context()), "value", fmt.Sprint(v), "stack", string(debug.Stack()))
	if w.code == 0 {
		Fail(w, problem.Of(problem.Internal))
	}
}

// fail answers err and logs the cause of what is the server's fault, once.
func (m *Mux) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.From(err)
	if p.Status() >= http.StatusInternalServerError {
		m.log.ErrorContext(r.Context(), "request failed", "request_id", RequestID(r.Context()), "code", string(p.Code), "error", err)
	}
	Fail(w, p)
}
