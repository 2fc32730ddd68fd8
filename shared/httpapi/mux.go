package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
)

// Handler writes a response or returns an error, never both. An error that is not a problem results
// in a 500 internal response, and is logged.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Mux routes requests by net/http patterns. It returns problems for unknown paths and methods.
type Mux struct {
	mux    *http.ServeMux
	mounts *http.ServeMux
	routes []string
	panics atomic.Uint64
	log    *slog.Logger
	now    func() time.Time
}

// New returns an empty Mux that logs each request to log.
func New(log *slog.Logger) *Mux {
	now := time.Now // the clock in production
	return &Mux{mux: http.NewServeMux(), mounts: http.NewServeMux(), log: reqctx.Logger(log), now: now}
}

// Handle registers h for a pattern such as "GET /api/v1/projects/{project}".
func (m *Mux) Handle(pattern string, h Handler) {
	m.routes = append(m.routes, pattern)
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			m.fail(w, r, err)
		}
	})
}

// Mount registers a handler that is not part of the API, such as a receiver of events. Its requests
// are not logged, since their paths may contain secrets.
func (m *Mux) Mount(pattern string, h http.Handler) {
	m.routes = append(m.routes, pattern)
	m.mounts.Handle(pattern, h)
}

// Routes returns the patterns of all handlers.
func (m *Mux) Routes() []string { return slices.Clone(m.routes) }

// Panics returns the number of panics in handlers.
func (m *Mux) Panics() uint64 { return m.panics.Load() }

// ServeHTTP implements [http.Handler]. It sets r.Pattern to the pattern of the route. It rejects a
// URL that contains an API key or a service token, and does not log it.
func (m *Mux) ServeHTTP(w http.ResponseWriter, outer *http.Request) {
	clean := path.Clean(outer.URL.Path) == outer.URL.Path
	if _, pattern := m.mounts.Handler(outer); clean && pattern != "" {
		m.mounts.ServeHTTP(w, outer)
		return
	}
	start := m.now()
	r := begin(outer)
	logged, secret := r.URL.Path, SecretInURL(r.URL)
	if secret {
		logged = "[redacted]"
	}
	rec := &recorder{ResponseWriter: w}
	rec.Header().Set(reqctx.Header, reqctx.ID(r.Context())) //nolint:contextcheck // begin derives it from the request's context
	rec.Header().Set("Cache-Control", "no-store")
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	defer func() { //nolint:contextcheck // the same
		if v := recover(); v != nil {
			m.recovered(rec, r, v)
		}
		m.log.LogAttrs(r.Context(), slog.LevelInfo, "request",
			slog.String("method", r.Method), slog.String("path", logged), slog.String("actor", reqctx.ActorFrom(r.Context()).Name),
			slog.Int("status", rec.status()), slog.Int64("bytes", rec.bytes), slog.Duration("took", m.now().Sub(start)))
	}()
	if clean && !secret {
		_, outer.Pattern = m.mux.Handler(r)
	}
	switch {
	case secret:
		m.fail(rec, r, problem.FromCode(problem.SecretInURL))
	case outer.Pattern != "":
		m.mux.ServeHTTP(rec, r)
	case clean && m.otherMethods(rec.Header(), r):
		m.fail(rec, r, problem.FromCode(problem.MethodNotAllowed))
	default:
		m.fail(rec, r, problem.FromCode(problem.NotFound))
	}
}

// SecretInURL reports whether a URL contains an API key or a service token.
func SecretInURL(u *url.URL) bool {
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil {
		query = u.RawQuery
	}
	return apikey.HoldsSecret(u.Path) || apikey.HoldsSecret(query)
}

func begin(r *http.Request) *http.Request {
	if _, ok := reqctx.FromContext(r.Context()); ok {
		return r.WithContext(r.Context()) // a copy
	}
	origin := reqctx.Request{ID: reqctx.IDOf(r.Header), Address: reqctx.Peer(r), Parent: reqctx.ParentOf(r.Header)}
	return r.WithContext(reqctx.Begin(r.Context(), origin))
}

// otherMethods reports whether the path has handlers for other methods, and sets Allow. ServeMux
// reveals these methods only in its own 405 response.
func (m *Mux) otherMethods(head http.Header, r *http.Request) bool {
	h, _ := m.mux.Handler(r)
	probe := &recorder{ResponseWriter: discardWriter{}}
	h.ServeHTTP(probe, r)
	if probe.status() != http.StatusMethodNotAllowed {
		return false
	}
	head.Set("Allow", probe.Header().Get("Allow"))
	return true
}

func (m *Mux) recovered(w *recorder, r *http.Request, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	m.panics.Add(1)
	m.log.ErrorContext(r.Context(), "panic", "value", fmt.Sprint(v), "stack", string(debug.Stack()))
	if w.code == 0 {
		WriteProblem(w, problem.FromCode(problem.Internal))
	}
}

func (m *Mux) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.From(err)
	span.FromContext(r.Context()).Set(span.Field{Key: span.Problem, Value: string(p.Code)})
	if p.Status() >= http.StatusInternalServerError {
		m.log.ErrorContext(r.Context(), "request failed", "code", string(p.Code), "error", err)
	}
	fail(w, r.Header.Values("Accept"), p)
}

type recorder struct {
	http.ResponseWriter
	code  int
	bytes int64
}

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) status() int {
	if r.code == 0 {
		return http.StatusOK
	}
	return r.code
}

// discardWriter is a ResponseWriter that stores only the headers.
type discardWriter http.Header

func (d discardWriter) Header() http.Header       { return http.Header(d) }
func (discardWriter) Write(b []byte) (int, error) { return len(b), nil }
func (discardWriter) WriteHeader(int)             {}
