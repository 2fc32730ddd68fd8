package deploys

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/deploy"
)

// gauges are the function's own metrics.
type gauges struct {
	unsettled prometheus.Gauge
	ended     *prometheus.CounterVec
}

func newGauges() *gauges {
	g := &gauges{
		unsettled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_deploys_unsettled", Help: "Apps whose current revision was not known to be live when the last tick began.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_deploys_ended_total", Help: "Rollouts that this process has seen end, by the revision's status.",
		}, []string{"status"}),
	}
	for _, status := range []deploy.Status{deploy.Live, deploy.Failed} {
		g.ended.WithLabelValues(string(status))
	}
	return g
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.unsettled, s.gauges.ended}
}
