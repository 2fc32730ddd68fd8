package webhook

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

// Outcomes of calls beside the actions of package hook.
const (
	replayed  = "replayed"  // a delivery that came before
	unproven  = "unproven"  // no token, or a wrong one
	throttled = "throttled" // too many
	refused   = "refused"   // proven, but not acceptable
	broken    = "error"     // the store or the cluster did not answer
)

func newOutcomes() *prometheus.CounterVec {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_calls_total", Help: "Calls of webhooks, by what came of them.",
	}, []string{"outcome"})
	for _, o := range []string{"deployed", "building", "ignored", "pong", replayed, unproven, throttled, refused, broken} {
		calls.WithLabelValues(o)
	}
	return calls
}

// taken names what came of a call that was taken.
func taken(a hook.Answer, fresh bool) string {
	if !fresh {
		return replayed
	}
	switch a.Action {
	case hook.Deploy:
		return "deployed"
	case hook.Build:
		return "building"
	case hook.Ignore:
		return "ignored"
	case hook.Pong:
	}
	return "pong"
}

// failure names what came of a call that was not.
func failure(err error) string {
	p := problem.From(err)
	switch {
	case p.Code == problem.InvalidToken:
		return unproven
	case p.Code == problem.RateLimited:
		return throttled
	case p.Status() < http.StatusInternalServerError:
		return refused
	}
	return broken
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector { return []prometheus.Collector{s.outcomes} }
