package functest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// Must ends the test if err is not nil.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Equal checks that got equals want, as [cmp.Diff] compares them. The failure text names the
// value.
func Equal(tb testing.TB, name string, want, got any) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// Metrics returns the values of counters and gauges. Their keys are the name and the values of
// the labels, with spaces between them.
func Metrics(tb testing.TB, all ...prometheus.Collector) map[string]float64 {
	tb.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(all...)
	families, err := registry.Gather()
	Must(tb, err)
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
