package checker

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the replica's. No label holds anything that a client sent.
type metrics struct {
	registry *prometheus.Registry
	byCode   [outcomes]prometheus.Counter
	latency  prometheus.Histogram
}

func newMetrics(c *Checker) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "sluice_checker_decision_seconds",
			Help:    "Time from a check's arrival at the handler to its answer.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 2, 16),
		}),
	}
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_checker_decisions_total",
		Help: "Checks answered, by outcome: allowed, preflight or the code of the denial.",
	}, []string{"code"})
	for o := range m.byCode {
		m.byCode[o] = decisions.WithLabelValues(outcome(o).String())
	}
	m.registry.MustRegister(decisions, m.latency, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newStateCollector(c))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: 5 * time.Second})
}

func (m *metrics) decided(o outcome, took time.Duration) {
	m.byCode[o].Inc()
	m.latency.Observe(took.Seconds())
}

// stateCollector reads the replica's state when it is asked.
type stateCollector struct {
	checker   *Checker
	staleness *prometheus.Desc
	fresh     *prometheus.Desc
	documents *prometheus.Desc
	writes    *prometheus.Desc
}

func newStateCollector(c *Checker) *stateCollector {
	return &stateCollector{
		checker: c,
		staleness: prometheus.NewDesc("sluice_checker_staleness_seconds",
			"How old what this replica has proven to see of a data type can be; absent before the first proof.", []string{"type"}, nil),
		fresh: prometheus.NewDesc("sluice_checker_fresh",
			"1 while the replica may allow, 0 while it denies with gate_unavailable.", nil, nil),
		documents: prometheus.NewDesc("sluice_checker_documents",
			"Documents in the snapshot.", []string{"type"}, nil),
		writes: prometheus.NewDesc("sluice_checker_counter_writes_total",
			"Writes of counter documents, by result; a write that failed is done again.", []string{"result"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (s *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.staleness
	ch <- s.fresh
	ch <- s.documents
	ch <- s.writes
}

// Collect implements [prometheus.Collector].
func (s *stateCollector) Collect(ch chan<- prometheus.Metric) {
	now := s.checker.now()
	for t, name := range types {
		if age, ok := s.checker.proof.Age(t, now); ok {
			ch <- prometheus.MustNewConstMetric(s.staleness, prometheus.GaugeValue, age.Seconds(), string(name))
		}
	}
	fresh := 0.0
	if s.checker.proof.Fresh(now) {
		fresh = 1
	}
	ch <- prometheus.MustNewConstMetric(s.fresh, prometheus.GaugeValue, fresh)
	v := s.checker.view.view.Load()
	ch <- prometheus.MustNewConstMetric(s.documents, prometheus.GaugeValue, float64(v.Keys()), "keys")
	ch <- prometheus.MustNewConstMetric(s.documents, prometheus.GaugeValue, float64(v.Plans()), "plans")
	ch <- prometheus.MustNewConstMetric(s.documents, prometheus.GaugeValue, float64(s.checker.meter.Len()), "counters")
	ch <- prometheus.MustNewConstMetric(s.writes, prometheus.CounterValue, float64(s.checker.meter.Writes()), "written")
	ch <- prometheus.MustNewConstMetric(s.writes, prometheus.CounterValue, float64(s.checker.meter.Failures()), "failed")
}
