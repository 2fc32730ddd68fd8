package checker

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// perKey bounds the memory of a key that is used, in bytes: the capacity table of the
// production guide is made from it.
const perKey = 400

// BenchmarkMemory measures a replica's memory by keys: the view, and what limits and
// counts the keys once each has made a request. What the listeners hold in passing is not
// in it: a resync keeps the old view and the new one at the same time.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				used := memoryOf(b, n)
				b.ReportMetric(float64(used)/(1<<20), "MiB")
				b.ReportMetric(float64(used)/float64(n), "B/key")
			}
		})
	}
}

// TestMemory: a key costs no more than the production guide says.
func TestMemory(t *testing.T) {
	const n = 50_000
	if got := memoryOf(t, n) / n; got > perKey {
		t.Errorf("%d bytes a key, want at most %d", got, perKey)
	}
}

// memoryOf is what a replica with n keys in use holds, in bytes.
func memoryOf(tb testing.TB, n int) uint64 {
	tb.Helper()
	before := heap()
	c := replicaWith(tb, n)
	useAll(tb, c, n)
	used := heap() - before
	runtime.KeepAlive(c)
	return used
}

// heap is what is in use after a collection, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what had finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// replicaWith is a replica whose view holds n keys with a scope and a name.
func replicaWith(tb testing.TB, n int) *Checker {
	tb.Helper()
	f := newFakeStore()
	cfg := Config{Replica: "memory", MaxStaleness: Ceiling, CanaryInterval: time.Second, FlushInterval: time.Second}
	c, err := New(cfg, f, f, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	changes := make([]view.KeyChange, n)
	for i := range changes {
		prefix := numbered(i)
		changes[i] = view.KeyChange{Prefix: prefix, Key: apikey.Key{
			Prefix: prefix, Namespace: "shop-prod", Plan: "plan-a", Apps: []string{"hello"}, Name: fmt.Sprintf("Team %d", i),
			Status: apikey.Active, Secret: apikey.HashOf([]byte(prefix)),
		}}
	}
	c.view.setKeys(true, changes)
	c.view.setPlans(true, []view.PlanChange{{Document: "shop-prod.plan-a", Limits: plan.Limits{Rate: 1e5, Burst: 1e6, Quota: 1e12, Period: plan.Month}}})
	return c
}

func numbered(i int) apikey.Prefix { return apikey.Prefix(fmt.Sprintf("%08d", i)) }

// useAll lets every key make a request, as far as limits and counts see it.
func useAll(tb testing.TB, c *Checker, n int) {
	tb.Helper()
	now := c.now()
	limits := view.Limits{}
	for i := range n {
		slot, ok := c.view.find(numbered(i))
		if !ok {
			tb.Fatalf("no key %d", i)
		}
		if !c.meter.Admit(slot, string(numbered(i)), limits, now) {
			tb.Fatalf("key %d is denied", i)
		}
	}
}
