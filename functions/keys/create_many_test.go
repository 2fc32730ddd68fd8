package keys

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/tests/storetest"
)

func crowded(t testing.TB, keys int) *world {
	t.Helper()
	project := storetest.Project(t)
	w := newWorldIn(t, project)
	w.makePlan(prod)
	storetest.CopyKey(t, project, apikey.ID(w.makeKey().ID), keys-1)
	return w
}

func (w *world) createMany(n, callers int) (created int64, took []time.Duration) {
	w.Helper()
	var next, ok atomic.Int64
	took = make([]time.Duration, n)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				begun := time.Now()
				a := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter"}`)
				took[i-1] = time.Since(begun)
				if a.Status == http.StatusCreated {
					ok.Add(1)
				} else {
					w.Errorf("got %d %s, want 201", a.Status, a.Body)
				}
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return ok.Load(), took
}

func TestHundredKeysAtOnce(t *testing.T) {
	t.Parallel()
	w := crowded(t, 2000)
	begun := time.Now()
	created, took := w.createMany(100, 100)
	t.Logf("%d of 100 keys created, %.0f a second, the slowest in %v", created, float64(created)/time.Since(begun).Seconds(), took[99])
}

func TestCallsOfAKeyCreation(t *testing.T) {
	t.Parallel()
	want := map[string]int{"batch_get_documents": 5, "begin_transaction": 1, "commit": 1}
	for _, keys := range []int{1, 2000} {
		w := crowded(t, keys)
		var mu sync.Mutex
		got := map[string]int{}
		w.store.Observe(func(op, _ string, _ time.Duration, _ bool) {
			mu.Lock()
			defer mu.Unlock()
			if op == "run_aggregation_query" {
				got["batch_get_documents"]-- // reads the version of the count
				return
			}
			got[op]++
		})
		w.makeKey()
		mu.Lock()
		if !maps.Equal(got, want) {
			t.Errorf("with %d keys: got %v, want %v", keys, got, want)
		}
		mu.Unlock()
	}
}

// BenchmarkCreateKeys measures concurrent creations. Run it with -benchtime=200x.
func BenchmarkCreateKeys(b *testing.B) {
	for _, keys := range []int{1, 2000} {
		for _, callers := range []int{1, 10, 25, 50, 100} {
			b.Run(fmt.Sprintf("keys=%d/callers=%d", keys, callers), func(b *testing.B) {
				w := crowded(b, keys)
				b.ResetTimer()
				created, took := w.createMany(b.N, callers)
				b.StopTimer()
				b.ReportMetric(float64(created)/b.Elapsed().Seconds(), "keys/s")
				b.ReportMetric(took[len(took)*99/100].Seconds(), "s-p99")
			})
		}
	}
}
