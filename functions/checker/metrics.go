package checker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the replica's. No label holds anything that a client sent.
type metrics struct {
	all     []prometheus.Collector
	counted []counted // by outcome
	latency prometheus.Histogram
}

// counted is what counts an outcome.
type counted struct {
	decisions prometheus.Counter
	denials   prometheus.Counter // nil of what is let through
}

func newMetrics(c *Checker) *metrics {
	m := &metrics{latency: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "sluice_checker_decision_seconds",
		Help:    "Time from a check's arrival at the handler to its answer.",
		Buckets: prometheus.ExponentialBuckets(1e-6, 2, 16),
	})}
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_checker_decisions_total",
		Help: "Checks answered, by outcome: allowed, preflight or the code of the denial.",
	}, []string{"code"})
	denials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_checker_denials_total",
		Help: "Denials, by the reason that the client is not told.",
	}, []string{"reason"})
	for _, o := range outcomes {
		n := counted{decisions: decisions.WithLabelValues(string(o.code))}
		if o.reason != "" {
			n.denials = denials.WithLabelValues(o.reason)
		}
		m.counted = append(m.counted, n)
	}
	m.all = append(append(stateOf(c), totalsOf(c)...), decisions, denials, m.latency, newStaleness(c))
	return m
}

func (m *metrics) decided(o outcome, took time.Duration) {
	n := m.counted[o]
	n.decisions.Inc()
	if n.denials != nil {
		n.denials.Inc()
	}
	m.latency.Observe(took.Seconds())
}

// stateOf reads the replica's state whenever it is asked.
func stateOf(c *Checker) (all []prometheus.Collector) {
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, read))
	}
	gauge("sluice_checker_fresh", "1 while the replica may allow, 0 while it denies with gate_unavailable.", nil, func() float64 {
		if c.proof.Fresh(c.now()) {
			return 1
		}
		return 0
	})
	gauge("sluice_checker_counts_unshared_seconds",
		"For how long counts have not been shared with the other replicas; above MAX_UNSHARED quotas are not trusted.", nil,
		func() float64 { return c.meter.Unshared(c.now()).Seconds() })
	gauge("sluice_checker_memory_bytes", "Memory that the process has of the machine.", nil,
		func() float64 { return float64(memoryInUse()) })
	gauge("sluice_checker_memory_limit_bytes",
		"Memory that the process may have, by its container or GOMEMLIMIT; infinite without a limit.", nil,
		func() float64 { return memoryLimit(limitFiles()) })
	gauge("sluice_checker_peers", "Other replicas that may allow requests.", nil,
		func() float64 { return float64(c.peers.Exchange.Status().Peers) })
	gauge("sluice_checker_peers_unreachable", "Of these, those that are not heard: rates are each replica's own meanwhile.", nil,
		func() float64 { return float64(c.peers.Exchange.Status().Unreachable) })
	gauge("sluice_checker_busy_keys", "Keys that replicas speak of with each other.", nil,
		func() float64 { return float64(c.peers.Exchange.Status().Keys) })
	gauge("sluice_checker_hard_quota_keys", "Keys whose quota is hard.", nil, func() float64 { return float64(c.leases.Keys()) })
	for _, s := range c.streams {
		labels := prometheus.Labels{"type": string(s.name)}
		gauge("sluice_checker_documents", "Documents in the snapshot.", labels, func() float64 { return float64(s.count()) })
		gauge("sluice_checker_unreadable_documents", "Documents that are damaged or none of Sluice's; they open nothing.", labels,
			func() float64 { return float64(s.unreadableCount.Load()) })
	}
	return all
}

// totalsOf reads what the replica counts of its own doing.
func totalsOf(c *Checker) (all []prometheus.Collector) {
	counter := func(name, help, label string, values map[string]func() uint64) {
		for value, read := range values {
			all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: name, Help: help, ConstLabels: prometheus.Labels{label: value},
			}, func() float64 { return float64(read()) }))
		}
	}
	t := &c.peers.Traffic
	counter("sluice_checker_counter_writes_total", "Writes of counter documents, by result; a write that failed is done again.", "result",
		map[string]func() uint64{"written": c.meter.Writes, "failed": c.meter.Failures})
	counter("sluice_checker_lease_writes_total", "Times that what is held of a hard quota was brought to the store, by result.", "result",
		map[string]func() uint64{"written": c.leases.Writes, "failed": c.leases.Failures})
	counter("sluice_checker_peer_messages_total", "Messages to and from other replicas, by result; what one that failed said is in the next.", "result",
		map[string]func() uint64{"sent": t.Sent.Load, "failed": t.Failed.Load, "received": t.Received.Load, "refused": t.Refused.Load})
	counter("sluice_checker_peer_bytes_total", "Bytes of messages to and from other replicas.", "direction",
		map[string]func() uint64{"sent": t.BytesSent.Load, "received": t.BytesReceived.Load})
	return all
}

// staleness tells how old proofs are, where there are any.
type staleness struct {
	checker *Checker
	age     *prometheus.Desc
}

func newStaleness(c *Checker) staleness {
	return staleness{c, prometheus.NewDesc("sluice_checker_staleness_seconds",
		"How old what this replica has proven to see of a data type can be; absent before the first proof.", []string{"type"}, nil)}
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
