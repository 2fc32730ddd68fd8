package replicas

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestHardQuotas spends three times a hard quota evenly on all replicas (promise P9).
func TestHardQuotas(t *testing.T) {
	const (
		quota    = int64(3000)
		patience = time.Second
	)
	for _, n := range numbers() {
		s := stackOf(t, n)
		for _, run := range []struct {
			name  string
			rate  float64
			burst int64
			kill  bool
		}{
			{"at once", 10_000, 10_000, false},
			{"at three times the rate, one killed", long.Pick(200.0, 100.0), 5, true},
		} {
			t.Run(fmt.Sprintf("%d %s", n, run.name), func(t *testing.T) {
				row := together.Test(t, fmt.Sprint(n), fmt.Sprintf("three times a hard quota of %d, %s", quota, run.name),
					"never exceeded; all served, except up to 2% held by a killed checker")
				site := stacktest.New(t, s)
				limit, period, mode := quota, string(plan.Month), string(plan.Hard)
				key := site.Key(site.Plan(wire.CreatePlan{Rate: &run.rate, Burst: &run.burst, Quota: &limit, QuotaPeriod: &period, QuotaMode: &mode}))
				site.Opens("hello", key)
				h := &hard{site: site, key: key, replicas: stacktest.Replicas(t, s)}
				h.live.Store(int64(n))
				h.admitted.Store(int64(n)) // requests of Opens
				writes := sum(metric(t, s, "sluice_checker_lease_writes_total", "written"))
				var killed sync.WaitGroup
				if run.kill {
					killed.Go(func() { h.kill(t, fmt.Sprintf("checker-%d", n-1), quota/3) })
				}
				h.spend(t, 3*run.rate, 3*quota)
				killed.Wait()
				h.finish(t)
				row.Measured(fmt.Sprintf("%d served; %d got 503, the first after %d; %.0f lease writes by surviving checkers",
					h.admitted.Load(), h.unleased.Load(), h.before.Load(), sum(metric(t, s, "sluice_checker_lease_writes_total", "written"))-writes))
				least := quota * 99 / 100
				if run.kill { // on a busy machine requests come in bursts, and replicas hold more
					least = quota * 98 / 100
				}
				if slowest := time.Duration(h.slowest.Load()); slowest > patience { // the replicas' messages are delayed too
					t.Logf("the machine is too slow: a response took %v", slowest)
					least = 0
				}
				if got := h.admitted.Load(); got > quota || got < least {
					t.Errorf("served requests: got %d, want %d to %d", got, least, quota)
				}
			})
		}
	}
}

func sum(all []float64) (total float64) {
	for _, n := range all {
		total += n
	}
	return total
}

type hard struct {
	site     *stacktest.Site
	key      stacktest.Key
	replicas []stacktest.Replica
	live     atomic.Int64 // number of used replicas, from the first on

	admitted, unleased, before atomic.Int64
	slowest                    atomic.Int64
}

// ask sends a request to a replica. It returns its status, or 0 without a response.
func (h *hard) ask(t *testing.T, i int64) int {
	t.Helper()
	begun := time.Now()
	a, err := h.replicas[i].Check(t.Context(), h.site.Project+"-"+h.site.Env, "hello", h.key.Full)
	for took, slowest := int64(time.Since(begun)), h.slowest.Load(); took > slowest && !h.slowest.CompareAndSwap(slowest, took); slowest = h.slowest.Load() {
	}
	switch {
	case err != nil: // the replica is being killed
		return 0
	case a.Status == http.StatusOK:
		h.admitted.Add(1)
	case a.Status != http.StatusServiceUnavailable && a.Status != http.StatusTooManyRequests:
		t.Errorf("got %d %s, want 200, 429 or 503", a.Status, a.Body)
	}
	return a.Status
}

func (h *hard) spend(t *testing.T, rate float64, asked int64) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range 64 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < asked && t.Context().Err() == nil; i = next.Add(1) - 1 {
				if due := time.Until(begun.Add(time.Duration(float64(i) / rate * float64(time.Second)))); due > 0 {
					time.Sleep(due)
				}
				if h.ask(t, i%h.live.Load()) == http.StatusServiceUnavailable && h.unleased.Add(1) == 1 {
					h.before.Store(h.admitted.Load())
				}
			}
		})
	}
	all.Wait()
}

// finish waits until all replicas have reported an exhausted quota for 3 s. A replica notices
// requests that another one releases to the store only after a delay.
func (h *hard) finish(t *testing.T) {
	t.Helper()
	const limit, settled = time.Minute, 3 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for since := time.Now(); time.Since(since) < settled; {
		exhausted := 0
		for i := range h.live.Load() {
			if h.ask(t, i) == http.StatusTooManyRequests {
				exhausted++
			}
		}
		if exhausted < len(h.replicas) {
			since = time.Now()
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %v: %d served, %d replicas report an exhausted quota", limit, h.admitted.Load(), exhausted)
		case <-tick.C:
		}
	}
}

// kill kills a replica when spent requests were served, and restarts it.
func (h *hard) kill(t *testing.T, name string, spent int64) {
	t.Helper()
	for h.admitted.Load() < spent && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	n := h.live.Add(-1)
	if err := h.site.Stack.Kill(name); err != nil {
		t.Error(err)
		return
	}
	if err := h.site.Stack.Restart(t.Context(), name); err != nil {
		t.Error(err)
		return
	}
	for h.ask(t, n) == http.StatusServiceUnavailable && t.Context().Err() == nil { // not proven yet, or no lease yet
		time.Sleep(10 * time.Millisecond)
	}
	h.live.Store(n + 1)
}
