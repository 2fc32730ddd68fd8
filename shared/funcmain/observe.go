package funcmain

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
)

// observer sets a request's ID, client address and span, counts the request, and responds if the
// handler panics.
type observer struct {
	next    http.Handler
	metrics *metrics
	spans   *span.Tracer
	clients *reqctx.Clients
	log     *slog.Logger
	now     func() time.Time
}

func (o *observer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := o.now()
	origin := reqctx.Request{ID: reqctx.IDOf(r.Header), Address: o.clients.Address(r), Parent: reqctx.ParentOf(r.Header)}
	ctx, spanned := o.spans.Server(r.Context(), origin.Parent)
	origin.Parent = cmp.Or(spanned.Parent(), origin.Parent) // calls from the request are its children
	r = r.WithContext(reqctx.Begin(ctx, origin))
	w.Header().Set(reqctx.Header, origin.ID)
	rec := &status{ResponseWriter: w}
	defer func() {
		v := recover()
		if v != nil {
			o.recovered(rec, r, v)
		}
		route := o.metrics.answered(r.Pattern, r.Method, rec.orOK(), o.now().Sub(began))
		spanned.EndHTTP(route, knownMethod(r.Method), rec.orOK(), origin.ID)
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v) // for net/http
		}
	}()
	o.next.ServeHTTP(rec, r)
}

func (o *observer) HandlesHealth() bool {
	own, ok := o.next.(interface{ HandlesHealth() bool })
	return ok && own.HandlesHealth()
}

func (o *observer) recovered(w *status, r *http.Request, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return
	}
	o.metrics.panics.Inc()
	o.log.ErrorContext(r.Context(), "panic", "value", fmt.Sprint(v), "stack", string(debug.Stack()))
	if w.code == 0 {
		httpapi.WriteProblem(w, problem.FromCode(problem.Internal))
	}
}

type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	if s.code == 0 && code >= http.StatusOK { // 1xx is not the final status
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *status) orOK() int {
	if s.code == 0 {
		return http.StatusOK
	}
	return s.code
}
