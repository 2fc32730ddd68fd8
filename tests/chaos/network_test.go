package chaos

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// network stands between the checkers and the store.
type network struct{ proxy *toxiproxy.Proxy }

// newNetwork carries connections to address on to the store.
func newNetwork(address, store string) (*network, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := toxiproxy.NewProxy(server, "store", address, store)
	return &network{proxy: p}, p.Start()
}

// cut lets nothing through any more, in neither direction, and closes nothing.
func (n *network) cut(t *testing.T) {
	t.Helper()
	for _, direction := range []string{"upstream", "downstream"} {
		toxic := `{"name":"` + direction + `","type":"timeout","stream":"` + direction + `","attributes":{"timeout":0}}`
		if _, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatal(err)
		}
	}
}

// heal lets everything through again.
func (n *network) heal(t *testing.T) {
	t.Helper()
	n.proxy.Toxics.ResetToxics(t.Context())
}

// TestStoreCutOff cuts the checkers off from a store that goes on. A key that is
// revoked meanwhile is refused from the first request after the replicas serve
// again.
func TestStoreCutOff(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k, other := s.AnyKey(), s.AnyKey()
	replicas := stacktest.Replicas(t, world)
	for _, r := range replicas {
		r.Until(s, "hello", k.Full, http.StatusOK, 20*time.Second)
		r.Until(s, "hello", other.Full, http.StatusOK, 20*time.Second)
	}
	w := startWatch(t, replicas, s.Project+"-"+s.Env, k.Full)
	between.cut(t)
	cutAt := time.Now()
	w.notAfter.Store(cutAt.Add(ceiling).UnixNano())
	s.Revoke(k)
	for _, r := range replicas {
		r.Until(s, "hello", other.Full, http.StatusServiceUnavailable, ceiling+2*time.Second)
	}
	t.Logf("both replicas deny %v after the cut (ceiling %v)", time.Since(cutAt).Round(time.Millisecond), ceiling)
	// From here on the revoked key may never be let in: the bound stays.
	between.heal(t)
	healed := time.Now()
	for _, r := range replicas {
		r.Until(s, "hello", other.Full, http.StatusOK, 60*time.Second)
		a, err := r.Check(t.Context(), s.Project+"-"+s.Env, "hello", k.Full)
		if err != nil || a.Status != http.StatusUnauthorized {
			t.Errorf("the key revoked meanwhile: %d, %v", a.Status, err)
		}
	}
	t.Logf("both replicas serve again %v after the network healed", time.Since(healed).Round(time.Millisecond))
	w.end(t)
}
