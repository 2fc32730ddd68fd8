package rollup

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/usage"
)

// gauges are the function's own metrics. How far behind it is can be read off them:
// time() less either timestamp.
type gauges struct {
	runs    *prometheus.CounterVec
	success prometheus.Gauge
	settled prometheus.Gauge
}

func newGauges() *gauges {
	g := &gauges{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_rollup_runs_total", Help: "Runs that ended, by outcome.",
		}, []string{"outcome"}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_rollup_last_success_timestamp_seconds", Help: "When the last run without an error ended; 0 before the first.",
		}),
		settled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_rollup_settled_day_timestamp_seconds", Help: "The end of the last settled UTC day; 0 before the first run.",
		}),
	}
	g.runs.WithLabelValues("done")
	g.runs.WithLabelValues("failed")
	return g
}

func (g *gauges) ran(err error, now time.Time) {
	if err != nil {
		g.runs.WithLabelValues("failed").Inc()
		return
	}
	g.runs.WithLabelValues("done").Inc()
	g.success.Set(float64(now.Unix()))
}

func (g *gauges) settledUpTo(day usage.Day) { g.settled.Set(float64((day + 1).Start().Unix())) }

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.runs, s.gauges.success, s.gauges.settled}
}
