package checker

import (
	"math"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the replica's. No label holds anything that a client sent.
type metrics struct {
	all      []prometheus.Collector
	byCode   [outcomes]prometheus.Counter
	byReason map[string]prometheus.Counter // not changed once it is made
	latency  prometheus.Histogram
}

func newMetrics(c *Checker) *metrics {
	m := &metrics{
		byReason: map[string]prometheus.Counter{},
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
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_checker_denials_total",
		Help: "Denials, by the reason that the client is not told.",
	}, []string{"reason"})
	for _, r := range reasons() {
		m.byReason[r] = refusals.WithLabelValues(r)
	}
	m.all = []prometheus.Collector{decisions, refusals, m.latency, newStateCollector(c)}
	return m
}

func (m *metrics) denied(reason string) { m.byReason[reason].Inc() }

func (m *metrics) decided(o outcome, took time.Duration) {
	m.byCode[o].Inc()
	m.latency.Observe(took.Seconds())
}

// stateCollector reads the replica's state when it is asked.
type stateCollector struct {
	checker   *Checker
	staleness *prometheus.Desc
	fresh     *prometheus.Desc
	unshared  *prometheus.Desc
	documents *prometheus.Desc
	strange   *prometheus.Desc
	memory    *prometheus.Desc
	limit     *prometheus.Desc
	writes    *prometheus.Desc
}

func newStateCollector(c *Checker) *stateCollector {
	return &stateCollector{
		checker: c,
		staleness: prometheus.NewDesc("sluice_checker_staleness_seconds",
			"How old what this replica has proven to see of a data type can be; absent before the first proof.", []string{"type"}, nil),
		fresh: prometheus.NewDesc("sluice_checker_fresh",
			"1 while the replica may allow, 0 while it denies with gate_unavailable.", nil, nil),
		unshared: prometheus.NewDesc("sluice_checker_counts_unshared_seconds",
			"For how long counts have not been shared with the other replicas; above MAX_UNSHARED quotas are not trusted.", nil, nil),
		documents: prometheus.NewDesc("sluice_checker_documents",
			"Documents in the snapshot.", []string{"type"}, nil),
		strange: prometheus.NewDesc("sluice_checker_unreadable_documents",
			"Documents that are damaged or none of Sluice's; they open nothing.", []string{"type"}, nil),
		memory: prometheus.NewDesc("sluice_checker_memory_bytes",
			"Memory that the process has of the machine.", nil, nil),
		limit: prometheus.NewDesc("sluice_checker_memory_limit_bytes",
			"Memory that the process may have, by its container or GOMEMLIMIT; infinite without a limit.", nil, nil),
		writes: prometheus.NewDesc("sluice_checker_counter_writes_total",
			"Writes of counter documents, by result; a write that failed is done again.", []string{"result"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (s *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.staleness
	ch <- s.fresh
	ch <- s.unshared
	ch <- s.documents
	ch <- s.strange
	ch <- s.memory
	ch <- s.limit
	ch <- s.writes
}

// Collect implements [prometheus.Collector].
func (s *stateCollector) Collect(ch chan<- prometheus.Metric) {
	now := s.checker.now()
	for t, name := range types {
		ch <- prometheus.MustNewConstMetric(s.strange, prometheus.GaugeValue, float64(s.checker.strange[t].count.Load()), string(name))
		if age, ok := s.checker.proof.Age(t, now); ok {
			ch <- prometheus.MustNewConstMetric(s.staleness, prometheus.GaugeValue, age.Seconds(), string(name))
		}
	}
	fresh := 0.0
	if s.checker.proof.Fresh(now) {
		fresh = 1
	}
	ch <- prometheus.MustNewConstMetric(s.fresh, prometheus.GaugeValue, fresh)
	ch <- prometheus.MustNewConstMetric(s.unshared, prometheus.GaugeValue, s.checker.meter.Unshared(now).Seconds())
	ch <- prometheus.MustNewConstMetric(s.memory, prometheus.GaugeValue, float64(memoryInUse()))
	ch <- prometheus.MustNewConstMetric(s.limit, prometheus.GaugeValue, memoryLimit(limitFiles()))
	v := s.checker.view.view.Load()
	ch <- prometheus.MustNewConstMetric(s.documents, prometheus.GaugeValue, float64(v.Keys()), "keys")
	ch <- prometheus.MustNewConstMetric(s.documents, prometheus.GaugeValue, float64(v.Plans()), "plans")
	ch <- prometheus.MustNewConstMetric(s.documents, prometheus.GaugeValue, float64(s.checker.meter.Len()), "counters")
	ch <- prometheus.MustNewConstMetric(s.writes, prometheus.CounterValue, float64(s.checker.meter.Writes()), "written")
	ch <- prometheus.MustNewConstMetric(s.writes, prometheus.CounterValue, float64(s.checker.meter.Failures()), "failed")
}

// limitFiles are where Linux says how much memory a container may take: version 2 of its
// control groups, and version 1.
func limitFiles() []string {
	return []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
}

// memoryLimit is at how many bytes the process is ended, or the runtime gives up keeping
// below; infinite without a limit.
func memoryLimit(files []string) float64 {
	limit := debug.SetMemoryLimit(-1) // GOMEMLIMIT; only asked for
	for _, name := range files {
		text, err := os.ReadFile(name) //nolint:gosec // one of limitFiles
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // else it is "max"
			limit = min(limit, n)
		}
	}
	if limit > math.MaxInt64>>1 { // version 1 has a number close to it for none
		return math.Inf(1)
	}
	return float64(limit)
}

// memoryInUse is what the runtime has of the machine's memory, in bytes.
func memoryInUse() uint64 {
	s := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	runtimemetrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
