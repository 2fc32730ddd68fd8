package builds

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/deploy"
)

// gauges are the function's own metrics.
type gauges struct {
	running prometheus.Gauge
	ended   *prometheus.CounterVec
}

func newGauges() *gauges {
	g := &gauges{
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_builds_running", Help: "Builds that had not ended when the last tick looked.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_builds_ended_total", Help: "Builds that this process has seen end, by status.",
		}, []string{"status"}),
	}
	for _, status := range deploy.BuildStatuses() {
		if status.Final() {
			g.ended.WithLabelValues(string(status))
		}
	}
	return g
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.running, s.gauges.ended}
}
