package session

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/problem"
)

// counts are the function's own metrics.
type counts struct {
	signIns    *prometheus.CounterVec
	unrecorded prometheus.Counter
}

// Outcomes of sign-ins.
const (
	signedIn  = "succeeded"
	wrong     = "failed"    // username or password
	throttled = "throttled" // not even looked at
	broken    = "error"     // the store or the hasher did not answer
)

func newCounts() *counts {
	c := &counts{
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_sign_ins_total", Help: "Attempts to sign in, by outcome.",
		}, []string{"outcome"}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_sign_ins_unrecorded_total", Help: "Sign-ins without an audit record of their own: too many of them, or no store.",
		}),
	}
	for _, o := range []string{signedIn, wrong, throttled, broken} {
		c.signIns.WithLabelValues(o)
	}
	return c
}

func (c *counts) signIn(err error) {
	outcome := broken
	switch {
	case err == nil:
		outcome = signedIn
	case problem.Is(err, problem.InvalidCredentials):
		outcome = wrong
	case problem.Is(err, problem.RateLimited):
		outcome = throttled
	}
	c.signIns.WithLabelValues(outcome).Inc()
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.counts.signIns, s.counts.unrecorded}
}
