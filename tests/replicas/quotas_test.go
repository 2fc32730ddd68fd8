package replicas

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestQuotas spends three times a quota evenly on all replicas (promise P7).
func TestQuotas(t *testing.T) {
	const (
		quota, asked, connections = int64(1000), 3000, 64

		exchange = 200 * time.Millisecond // longest exchange of counts, on a busy machine
		patience = 5 * time.Second
	)
	for _, n := range numbers() {
		s := stackOf(t, n)
		for _, over := range []time.Duration{0, 5 * time.Second} {
			t.Run(fmt.Sprintf("%d in %s", n, over), func(t *testing.T) {
				row := together.Test(t, fmt.Sprint(n), fmt.Sprintf("three times a quota of %d, in %s", quota, over),
					"exceeded by at most 0.2 s of requests")
				site := stacktest.New(t, s)
				limit, period := quota, "month"
				key := site.Key(site.Plan(wire.CreatePlan{Quota: &limit, QuotaPeriod: &period}))
				site.Opens("hello", key)
				admitted, failed, took := spend(t, site, key, asked, connections, over)
				admitted += int64(n) // requests of Opens
				row.Measured(fmt.Sprintf("%d requests in %s: %d allowed", asked, took.Round(time.Millisecond), admitted))
				if failed > 0 || took > over+over/10+patience {
					t.Logf("the machine is too slow: %d requests failed", failed)
					return // the replicas' messages are delayed too
				}
				most := float64(quota) + asked/took.Seconds()*exchange.Seconds()
				if admitted < quota || float64(admitted) > most {
					t.Errorf("allowed requests: got %d, want %d to %.0f", admitted, quota, most)
				}
			})
		}
	}
}

// spend returns the numbers of allowed and of undecided requests.
func spend(t *testing.T, site *stacktest.Site, key stacktest.Key, asked, connections int, over time.Duration) (ok, none int64, took time.Duration) {
	t.Helper()
	replicas := stacktest.Replicas(t, site.Stack)
	var next, admitted, failed atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range connections {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(asked) || t.Context().Err() != nil {
					return
				}
				if due := time.Until(begun.Add(over * time.Duration(i) / time.Duration(asked))); due > 0 {
					time.Sleep(due)
				}
				a, err := replicas[int(i)%len(replicas)].Check(t.Context(), site.Project+"-"+site.Env, "hello", key.Full)
				switch {
				case err != nil || a.Status == http.StatusServiceUnavailable:
					failed.Add(1)
				case a.Status == http.StatusOK:
					admitted.Add(1)
				case a.Status != http.StatusTooManyRequests:
					t.Errorf("got %d %s, want 200, 429 or 503", a.Status, a.Body)
				}
			}
		})
	}
	all.Wait()
	return admitted.Load(), failed.Load(), time.Since(begun)
}
