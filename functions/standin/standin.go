// Package standin responds for the checkers while none of them is reachable. Clients of gated
// apps then get 503 gate_unavailable (promise G13) instead of the proxy's 500. The stand-in
// denies all requests except CORS preflights; without them, browsers would hide the denial from
// the page.
//
// # Routing
//
// The stand-in is a pod of the checkers' own Service with inverted readiness: /readyz returns 200
// only while no checker is reachable. Otherwise Kubernetes sends it no requests.
//
// The stand-in probes the checkers through a second Service, whose only endpoints are the
// checkers. A probe first uses the connection of the previous probe. If that fails, it opens
// several connections at once, since each may reach another replica. Two consecutive failed probes
// make the stand-in ready, and one success makes it unready.
//
// Proxies keep their connections to the stand-in. Once a checker is reachable again, each response
// therefore closes its connection. Until then, one response a second does so, in case the probes
// miss a checker. If more did, proxies would retry waiting requests with growing pauses.
//
// After the last checker stops, proxies send their own response (Traefik: 500 without a body)
// until the probes have failed (0.3 s), the readiness probe has succeeded (at most 1 s) and the
// endpoints are updated.
//
// # Certificates
//
// The stand-in serves the checkers' certificate. Its probes do not verify the certificates of the
// checkers: they send no data, and a failed verification would cause unnecessary denials.
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
	closedAt atomic.Int64 // time of the last closed connection, in nanoseconds since start
}

// New returns a stand-in that is not ready until [Standin.Run] has failed to reach the checkers.
func New(cfg Config, log *slog.Logger) (*Standin, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return &Standin{
		cfg: cfg, log: log, now: time.Now, start: time.Now(),
		watch:  &watch{url: cfg.CheckersURL + "/readyz", every: cfg.Interval, limit: cfg.Limit, log: log, client: newClient(false)},
		answer: denial.New(problem.GateUnavailable),
	}, nil
}

// TLSConfig returns the configuration for the certificate in TLS_DIR.
func (s *Standin) TLSConfig() (*tls.Config, error) {
	cert, err := servercert.Open(s.cfg.TLSDir, s.now, s.log)
	if err != nil {
		return nil, err
	}
	return cert.Config(), nil
}

// Run probes the checkers until ctx ends.
func (s *Standin) Run(ctx context.Context) error {
	s.watch.run(ctx)
	return nil
}

// HandlesHealth prevents funcmain from serving /healthz itself.
func (s *Standin) HandlesHealth() bool { return true }

// ServeHTTP denies all requests except preflights, /healthz and /readyz.
func (s *Standin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz" && s.watch.alone.Load():
		w.WriteHeader(http.StatusOK)
	case r.URL.Path == "/readyz":
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		if s.closesConnection() {
			w.Header().Set("Connection", "close") // a GOAWAY in HTTP/2
		}
		if strings.HasPrefix(r.URL.Path, "/check/") && denial.Preflight(r.Header) {
			w.WriteHeader(http.StatusOK)
			return
		}
		s.answer.Write(w, 0)
	}
}

func (s *Standin) closesConnection() bool {
	if !s.watch.alone.Load() {
		return true
	}
	at, last := int64(s.now().Sub(s.start)), s.closedAt.Load()
	return at-last >= int64(time.Second) && s.closedAt.CompareAndSwap(last, at)
}
