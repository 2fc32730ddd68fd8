package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// network is a proxy to a server that can simulate faults.
type network struct {
	proxy *toxiproxy.Proxy
	calm  func() // waits for the end of reset
}

func newNetwork(address, target string) (*network, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := toxiproxy.NewProxy(server, target, address, target)
	return &network{proxy: p, calm: func() {}}, p.Start()
}

func (n *network) add(t testing.TB, kind, attributes string) {
	t.Helper()
	for _, direction := range []string{"upstream", "downstream"} {
		toxic := fmt.Sprintf(`{"name":"%s-%s","type":%q,"stream":%q,"attributes":{%s}}`, kind, direction, kind, direction, attributes)
		if _, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Error(err)
		}
	}
}

func (n *network) slow(t *testing.T, each time.Duration) {
	t.Helper()
	n.add(t, "latency", fmt.Sprintf(`"latency":%d,"jitter":%d`, each.Milliseconds(), each.Milliseconds()/3))
}

// stall drops all data and keeps connections open.
func (n *network) stall(t testing.TB) {
	t.Helper()
	n.add(t, "timeout", `"timeout":0`)
}

// refuse closes all connections and accepts no new ones.
func (n *network) refuse(*testing.T) { n.proxy.Stop() }

// reset resets active connections (TCP RST) several times, with pauses in which connections work.
func (n *network) reset(t *testing.T, times int, every time.Duration) {
	t.Helper()
	done := make(chan struct{})
	n.calm = func() { <-done }
	go func() {
		defer close(done)
		for range times {
			n.add(t, "reset_peer", `"timeout":0`)
			wait(t, every/10)
			n.proxy.Toxics.ResetToxics(t.Context())
			wait(t, every-every/10)
		}
	}()
}

func (n *network) heal(t testing.TB) {
	t.Helper()
	n.calm()
	n.calm = func() {}
	n.proxy.Toxics.ResetToxics(t.Context())
	if !n.proxy.Enabled {
		if err := n.proxy.Start(); err != nil {
			t.Error(err)
		}
	}
}

type networks []*network

func (all networks) each(f func(*network)) {
	for _, n := range all {
		f(n)
	}
}
