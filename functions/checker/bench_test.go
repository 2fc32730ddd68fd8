package checker

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// sink is a ResponseWriter that costs nothing.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// BenchmarkCheck measures the whole handler: freshness, key, rate, quota,
// counting, headers and metrics, with 100 000 keys that have scopes and quotas.
func BenchmarkCheck(b *testing.B) {
	const n = 100_000
	f := newFakeStore()
	cfg := Config{Replica: "bench", MaxStaleness: Ceiling, CanaryInterval: time.Second, FlushInterval: time.Second}
	c, err := New(cfg, f, f, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	changes := make([]view.KeyChange, n)
	requests := make([]*http.Request, n)
	for i := range n {
		prefix, err := apikey.NewPrefix(apikey.Random())
		if err != nil {
			b.Fatal(err)
		}
		full, err := apikey.NewSecret(apikey.Random(), prefix)
		if err != nil {
			b.Fatal(err)
		}
		changes[i] = view.KeyChange{Prefix: prefix, Key: apikey.Key{
			Prefix: prefix, Namespace: "shop-prod", Plan: "plan-a", Apps: []string{"hello"}, Status: apikey.Active, Secret: apikey.HashOf([]byte(full)),
		}}
		requests[i] = httptest.NewRequest(http.MethodGet, "/check/shop-prod/hello", nil)
		requests[i].Header = http.Header{keyHeader: {string(full)}, methodHeader: {"GET"}}
	}
	c.view.setKeys(true, changes)
	c.view.setPlans(true, []view.PlanChange{{Document: "shop-prod.plan-a", Limits: plan.Limits{Rate: 1e5, Burst: 1e6, Quota: 1e12, Period: plan.Month}}})
	for t := range types {
		c.proof.Echo(t, c.proof.Begin(t, c.now()))
	}
	b.Run("random", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			w := &sink{h: http.Header{}}
			for pb.Next() {
				clear(w.h)
				c.ServeHTTP(w, requests[rand.N(n)])
			}
		})
	})
	b.Run("one key", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			w := &sink{h: http.Header{}}
			for pb.Next() {
				clear(w.h)
				c.ServeHTTP(w, requests[0])
			}
		})
	})
}
