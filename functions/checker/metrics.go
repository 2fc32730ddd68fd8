package checker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of a replica. No label contains text from a client.
type metrics struct {
	all       []prometheus.Collector
	byOutcome []outcomeCounters
	latency   prometheus.Histogram
}

type outcomeCounters struct {
	decisions prometheus.Counter
	denials   prometheus.Counter // nil if allowed
}

func newMetrics(c *Checker) *metrics {
	m := &metrics{latency: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "sluice_checker_decision_seconds",
		Help:    "Duration of a check in the handler.",
		Buckets: prometheus.ExponentialBuckets(1e-6, 2, 16),
	})}
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_checker_decisions_total",
		Help: "Checks by outcome: allowed, preflight or the code of the denial.",
	}, []string{"code"})
	denials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_checker_denials_total",
		Help: "Denials by reason. The client does not learn it.",
	}, []string{"reason"})
	for _, o := range outcomes {
		n := outcomeCounters{decisions: decisions.WithLabelValues(string(o.code))}
		if o.reason != "" {
			n.denials = denials.WithLabelValues(o.reason)
		}
		m.byOutcome = append(m.byOutcome, n)
	}
	m.all = append(append(stateOf(c), totalsOf(c)...), decisions, denials, m.latency, newStaleness(c))
	return m
}

func (m *metrics) observe(o outcome, took time.Duration) {
	n := m.byOutcome[o]
	n.decisions.Inc()
	if n.denials != nil {
		n.denials.Inc()
	}
	m.latency.Observe(took.Seconds())
}

func stateOf(c *Checker) (all []prometheus.Collector) {
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, read))
	}
	gauge("sluice_checker_fresh", "1 while the replica may allow requests, 0 while it denies all with gate_unavailable.", nil, func() float64 {
		if c.proof.Fresh(c.now()) {
			return 1
		}
		return 0
	})
	gauge("sluice_checker_counts_unshared_seconds",
		"Time since counts were last shared with other replicas; above MAX_UNSHARED, quotas are not trusted.", nil,
		func() float64 { return c.meter.Unshared(c.now()).Seconds() })
	gauge("sluice_checker_memory_bytes", "Memory of the process.", nil,
		func() float64 { return float64(memoryInUse()) })
	gauge("sluice_checker_memory_limit_bytes",
		"Memory limit of the process, from its container or GOMEMLIMIT; infinite without a limit.", nil,
		func() float64 { return memoryLimit(limitFiles()) })
	gauge("sluice_checker_peers", "Other replicas that may allow requests.", nil,
		func() float64 { return float64(c.peers.Exchange.Status().Peers) })
	gauge("sluice_checker_peers_unreachable", "Other replicas from which no messages arrive; each such replica allows the whole rate.", nil,
		func() float64 { return float64(c.peers.Exchange.Status().Unreachable) })
	gauge("sluice_checker_busy_keys", "Keys whose counts replicas exchange.", nil,
		func() float64 { return float64(c.peers.Exchange.Status().Keys) })
	gauge("sluice_checker_hard_quota_keys", "Keys with a hard quota.", nil, func() float64 { return float64(c.leases.Keys()) })
	for _, s := range c.streams {
		labels := prometheus.Labels{"type": string(s.name)}
		gauge("sluice_checker_documents", "Documents in the snapshot.", labels, func() float64 { return float64(s.count()) })
		gauge("sluice_checker_unreadable_documents", "Documents that are damaged or not Sluice's; they are ignored.", labels,
			func() float64 { return float64(s.unreadableCount.Load()) })
	}
	return all
}

func totalsOf(c *Checker) (all []prometheus.Collector) {
	counter := func(name, help, label string, values map[string]func() uint64) {
		for value, read := range values {
			all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: name, Help: help, ConstLabels: prometheus.Labels{label: value},
			}, func() float64 { return float64(read()) }))
		}
	}
	t := &c.peers.Traffic
	counter("sluice_checker_counter_writes_total", "Writes of counter documents by result; failed writes are repeated.", "result",
		map[string]func() uint64{"written": c.meter.Writes, "failed": c.meter.Failures})
	counter("sluice_checker_lease_writes_total", "Writes of leases of hard quotas by result.", "result",
		map[string]func() uint64{"written": c.leases.Writes, "failed": c.leases.Failures})
	counter("sluice_checker_peer_messages_total", "Messages to and from other replicas by result; the next message contains the counts of a failed one.", "result",
		map[string]func() uint64{"sent": t.Sent.Load, "failed": t.Failed.Load, "received": t.Received.Load, "refused": t.Refused.Load})
	counter("sluice_checker_peer_bytes_total", "Bytes of messages to and from other replicas by direction.", "direction",
		map[string]func() uint64{"sent": t.BytesSent.Load, "received": t.BytesReceived.Load})
	return all
}

type staleness struct {
	checker *Checker
	age     *prometheus.Desc
}

func newStaleness(c *Checker) staleness {
	return staleness{c, prometheus.NewDesc("sluice_checker_staleness_seconds",
		"Age of the proof of a data type; absent before the first proof.", []string{"type"}, nil)}
}

// Describe implements [prometheus.Collector].
func (s staleness) Describe(ch chan<- *prometheus.Desc) { ch <- s.age }

// Collect implements [prometheus.Collector].
func (s staleness) Collect(ch chan<- prometheus.Metric) {
	for t, stream := range s.checker.streams {
		if age, ok := s.checker.proof.Age(t, s.checker.now()); ok {
			ch <- prometheus.MustNewConstMetric(s.age, prometheus.GaugeValue, age.Seconds(), string(stream.name))
		}
	}
}
