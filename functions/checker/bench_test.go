package checker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// loaded returns a replica and its keys in one string.
func loaded(b testing.TB, n int) (*Checker, string) {
	b.Helper()
	f := newFakeStore()
	cfg := Config{Replica: "bench", MaxStaleness: Ceiling, CanaryInterval: time.Second, FlushInterval: time.Second, MaxUnshared: 5 * time.Second}
	c, err := New(cfg, f, f, functest.Quiet())
	check.OK(b, err)
	var fulls strings.Builder
	seen := make(map[apikey.Prefix]bool, n)
	changes := make([]view.KeyChange, 0, n)
	for len(changes) < n {
		k, full := functest.NewKey(b, func(k *apikey.Key) { k.Apps = []string{"hello"} })
		if seen[k.Prefix] {
			continue
		}
		seen[k.Prefix] = true
		fulls.WriteString(full)
		changes = append(changes, view.KeyChange{Prefix: k.Prefix, Key: &k})
	}
	c.peers.Exchange.Members(c.now(), true, nil, []store.Canary{{Replica: "other", Run: "other"}})
	c.snapshot.setKeys(true, changes)
	c.snapshot.receivePlans(store.Batch[plan.Plan]{Reset: true, Changes: []store.DocChange[plan.Plan]{
		{ID: "shop-prod.plan-a", Value: plan.Plan{Limits: plan.Limits{Rate: 1e5, Burst: 1e6, Quota: 1e12, Period: plan.Month}}},
	}})
	for t := range c.streams {
		c.proof.Echo(t, c.proof.Begin(t, c.now()), c.now())
	}
	runtime.GC()
	return c, fulls.String()
}

// BenchmarkCheck measures the handler. With one key, some requests are rate-limited.
func BenchmarkCheck(b *testing.B) {
	const n = 1_000_000
	c, fulls := loaded(b, n)
	run := func(b *testing.B, step int) {
		b.Helper()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			w := &sink{h: http.Header{}}
			r := httptest.NewRequest(http.MethodGet, "/check/shop-prod/hello", nil)
			key := []string{""}
			r.Header = http.Header{keyHeader: key, methodHeader: {"GET"}}
			for at := 0; pb.Next(); {
				clear(w.h)
				key[0] = fulls[at:][:apikey.Length]
				c.ServeHTTP(w, r)
				if at += step; at == len(fulls) {
					at = 0
				}
			}
		})
	}
	b.Run("random", func(b *testing.B) { run(b, apikey.Length) })
	b.Run("one key", func(b *testing.B) { run(b, 0) })
}

func BenchmarkContended(b *testing.B) {
	c, fulls := loaded(b, 1_000_000)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		h := http.Header{keyHeader: {fulls[:apikey.Length]}, methodHeader: {"GET"}}
		for pb.Next() {
			c.check(h, "shop-prod/hello", c.now())
		}
	})
}

func BenchmarkCollect(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			c, _ := loaded(b, n)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // b.Run resets it
			debug.FreeOSMemory()                            // like keepHeap
			before := collecting()
			for b.Loop() {
				runtime.GC()
			}
			b.ReportMetric((collecting()-before)*1e9/float64(b.N), "cpu-ns/op")
			runtime.KeepAlive(c)
		})
	}
}

// collecting returns the processor time of the garbage collector in seconds.
func collecting() float64 {
	s := []runtimemetrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	runtimemetrics.Read(s)
	return s[0].Value.Float64()
}
