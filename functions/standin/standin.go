// Package standin answers for the checkers while none of them can be reached, so
// that clients of gated apps get the gate's own 503 gate_unavailable, with its body
// and Retry-After (promise G13), and not the proxy's bare 500. It can
// only deny: it holds no keys and reads no store. A CORS preflight passes, as it does
// while the checkers deny: it opens nothing, and without it no browser shows the
// denial to a page.
//
// # How requests come here, and when
//
// The stand-in is a pod of the checkers' own Service, and its readiness is inverted:
// /readyz is 200 only while no checker can be reached. So the Service leads here
// when there is nobody else, and never while a checker serves: on the normal path
// nothing is added, neither a hop nor a byte.
//
// It looks for the checkers the way a proxy would find them: through the address of
// a second Service, which has the checkers alone as endpoints. A look first uses the
// connection of the last one; where that fails, several new connections are tried at
// once, as each may lead to another replica. Two looks in a row that reach nobody
// make the stand-in ready; a single one that reaches somebody makes it unready.
//
// Who is connected must go back to the checkers as soon as they are back, and a
// connection stays with whom it was opened to. So from then on every answer ends its
// connection. Before, one answer a second does, for what the looks may miss; more
// would only make proxies open connections, and a proxy that has requests waiting on
// a connection that ends tries those again with growing pauses.
//
// # The window
//
// Between the end of the last checker and the moment when the Service leads here,
// proxies find nobody and answer as they like (Traefik: 500 without a body; closed
// all the same). It takes the looks (0.3 s), the readiness probe of this pod (at
// most 1 s) and what the cluster needs to change the Service's endpoints.
//
// # Certificates
//
// The stand-in serves the checkers' certificate. It does not verify theirs: it tells
// them nothing and learns only that they answer, while a verification that fails by
// mistake would send requests here that a checker could allow.
package standin

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/servercert"
)

// Standin is one replica.
type Standin struct {
	cfg    Config
	log    *slog.Logger
	now    func() time.Time
	watch  *watch
	answer *denial.Denial

	start    time.Time
	sentAway atomic.Int64 // when a connection was last ended by an answer, in nanoseconds since start
}

// New makes a stand-in that is not ready until [Standin.Run] has missed the checkers.
func New(cfg Config, log *slog.Logger) (*Standin, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return &Standin{
		cfg: cfg, log: log, now: time.Now, start: time.Now(),
		watch:  &watch{url: cfg.CheckersURL + "/readyz", every: cfg.Interval, limit: cfg.Limit, log: log, kept: client(false)},
		answer: denial.New(problem.GateUnavailable),
	}, nil
}

// TLSConfig serves the certificate in TLS_DIR.
func (s *Standin) TLSConfig() (*tls.Config, error) {
	cert, err := servercert.Open(s.cfg.TLSDir, s.now, s.log)
	if err != nil {
		return nil, err
	}
	return cert.Config(), nil
}

// Run looks for the checkers until ctx ends.
func (s *Standin) Run(ctx context.Context) error {
	s.watch.run(ctx)
	return nil
}

// HandlesHealth keeps funcmain from answering /healthz itself.
func (s *Standin) HandlesHealth() bool { return true }

// ServeHTTP denies whatever it is asked, but for preflights, /healthz (200 while the
// process serves) and /readyz (200 while no checker can be reached, else 503).
func (s *Standin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz" && s.watch.alone.Load():
		w.WriteHeader(http.StatusOK)
	case r.URL.Path == "/readyz":
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		if s.sendsAway() {
			w.Header().Set("Connection", "close") // over HTTP/2 that is a GOAWAY
		}
		if strings.HasPrefix(r.URL.Path, "/check/") && denial.Preflight(r.Header) {
			w.WriteHeader(http.StatusOK)
			return
		}
		s.answer.Write(w, 0)
	}
}

// sendsAway tells whether this answer ends its connection.
func (s *Standin) sendsAway() bool {
	if !s.watch.alone.Load() {
		return true
	}
	at, last := int64(s.now().Sub(s.start)), s.sentAway.Load()
	return at-last >= int64(time.Second) && s.sentAway.CompareAndSwap(last, at)
}
