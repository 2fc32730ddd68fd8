package functest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/tests/check"
)

// Metrics returns counters and gauges by name and label values, separated by spaces.
func Metrics(tb testing.TB, all ...prometheus.Collector) map[string]float64 {
	tb.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(all...)
	families, err := registry.Gather()
	check.OK(tb, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}
