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

// TestQuotas: three times a quota is asked for, of all replicas evenly: at once, and
// spread over some seconds. Beyond the quota goes no more than what the replicas admit
// until they have told each other (promise P7).
func TestQuotas(t *testing.T) {
	const (
		quota, asked, connections = int64(1000), 3000, 64

		told     = 200 * time.Millisecond // until replicas have told each other, on a busy machine
		patience = 5 * time.Second
	)
	for _, n := range numbers() {
		s := stackOf(t, n)
		for _, over := range []time.Duration{0, 5 * time.Second} {
			t.Run(fmt.Sprintf("%d in %s", n, over), func(t *testing.T) {
				row := together.Test(t, fmt.Sprint(n), fmt.Sprintf("for three times a quota of %d, in %s", quota, over),
					"beyond it no more than what comes until they have told each other, 0.2 s on a busy machine")
				site := stacktest.New(t, s)
				limit, period := quota, "month"
				key := site.Key(site.Plan(wire.CreatePlan{Quota: &limit, QuotaPeriod: &period}))
				site.Opens("hello", key)
				admitted, failed, took := spend(t, site, key, asked, connections, over)
				admitted += int64(n) // by Opens
				row.Measured(fmt.Sprintf("%d requests in %s: %d admitted", asked, took.Round(time.Millisecond), admitted))
				if failed > 0 || took > over+over/10+patience {
					t.Logf("the machine cannot keep pace: %d requests failed", failed)
					return // messages wait as requests do
				}
				most := float64(quota) + asked/took.Seconds()*told.Seconds()
				if admitted < quota || float64(admitted) > most {
					t.Errorf("%d were admitted, want %d to %.0f", admitted, quota, most)
				}
			})
		}
	}
}

// spend asks all replicas in turn, and tells how many requests were admitted and how many
// were not decided.
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
					t.Errorf("%d %s", a.Status, a.Body)
				}
			}
		})
	}
	all.Wait()
	return admitted.Load(), failed.Load(), time.Since(begun)
}
