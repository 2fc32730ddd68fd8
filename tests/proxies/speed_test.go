package proxies

import (
	"flag"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/bench/load"
	"github.com/sluicegate/sluice/tests/stacktest"
)

var against = flag.String("against", "", "directory like infra/proxies, such as that of an earlier version, to compare with in TestSpeed")

const (
	turns = 9
	turn  = 2 * time.Second
)

// TestSpeed measures the throughput of each proxy's shipped files, alternately with those of
// -against. SLUICE_BENCH=1 enables it.
func TestSpeed(t *testing.T) {
	if os.Getenv("SLUICE_BENCH") == "" {
		t.Skip("run by make bench-proxies")
	}
	s := stacktest.New(t, world)
	s.App("hello")
	rate, burst := 100_000.0, int64(1_000_000)
	key := s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
	s.Opens("hello", key)
	for _, p := range proxies() {
		t.Run(p.name, func(t *testing.T) {
			versions := []proxy{p}
			if *against != "" {
				p.from, p.port = *against, p.port+10
				versions = append(versions, p)
			}
			compare(t, s, key, versions)
		})
	}
}

// compare logs the median rates of a proxy's versions and the ratio of the first to the second.
func compare(t *testing.T, s *stacktest.Site, key stacktest.Key, versions []proxy) {
	t.Helper()
	loads := make([]load.Load, len(versions))
	for i, p := range versions {
		g := p.start(t, s, "hello")
		loads[i] = load.Load{
			Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)), TLS: g.transport(t).TLSClientConfig, Connections: 64,
			Head: "GET / HTTP/1.1\r\nHost: " + host + "\r\n", Keys: []string{key.Full}, For: turn, Now: time.Now,
		}
	}
	rates := make([][]float64, len(loads))
	var ratios []float64
	for n := range turns + 1 {
		for i, l := range loads {
			r, err := l.Run(t.Context())
			if err != nil || r.Statuses[http.StatusOK] != r.Requests {
				t.Fatalf("%v, %v", r.Statuses, err)
			}
			if n > 0 { // the first turn is a warm-up
				rates[i] = append(rates[i], r.Rate())
			}
		}
		if n > 0 && len(rates) > 1 {
			ratios = append(ratios, rates[0][n-1]/rates[1][n-1])
		}
	}
	for i := range rates {
		t.Logf("%-8s %6.0f requests per second (%.0f to %.0f)", versions[i].name, median(rates[i]), slices.Min(rates[i]), slices.Max(rates[i]))
	}
	if len(ratios) > 0 {
		t.Logf("%-8s ratio %.2f (%.2f to %.2f)", versions[0].name, median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}
