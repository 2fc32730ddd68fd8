package wiring

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/app"
)

// gauges are the function's own metrics.
type gauges struct {
	gates   *prometheus.GaugeVec
	expires prometheus.Gauge
}

func newGauges() *gauges {
	g := &gauges{
		gates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_wiring_gates", Help: "Apps by the state of their gate, as the last tick has found them.",
		}, []string{"state"}),
		expires: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_wiring_certificate_expires_timestamp_seconds", Help: "When the checker's certificate expires; 0 when that is not known.",
		}),
	}
	g.count(nil)
	return g
}

// count shows how many gates have which state.
func (g *gauges) count(gates map[app.GateState]int) {
	for _, state := range app.GateStates() {
		g.gates.WithLabelValues(string(state)).Set(float64(gates[state]))
	}
}

// serves shows when the certificate in a PEM file expires.
func (g *gauges) serves(cert []byte) {
	expires := time.Time{}
	if block, _ := pem.Decode(cert); block != nil {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			expires = c.NotAfter
		}
	}
	if expires.IsZero() {
		g.expires.Set(0)
		return
	}
	g.expires.Set(float64(expires.Unix()))
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.gates, s.gauges.expires}
}
