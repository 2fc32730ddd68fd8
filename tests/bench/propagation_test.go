package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const (
	revocations = 300 // without and with waiting
	loadStreams = 4   // per replica
	checkEvery  = 10 * time.Millisecond
	canaryEvery = 15 * time.Second // per replica and collection
	inForceBar  = 250              // ms, 99th percentile
	inForceRow  = "99th percentile of a revocation that waits until both replicas have applied it"
)

// inForce measures revocations under load that wait for both replicas, and counts the canaries
// that they add.
func (b *bench) inForce(t *testing.T) {
	t.Helper()
	s := b.stack(t)
	site := stacktest.New(t, s)
	site.App("hello")
	p := site.Plan(wire.CreatePlan{})
	used := site.Key(p)
	site.Opens("hello", used)
	served, end := busy(t, site, used)
	extra := map[bool]float64{}
	var took []time.Duration
	began := time.Now()
	for _, waits := range []bool{false, true} {
		before, since := canaries(t, s), time.Now()
		c := site.Client
		if waits {
			c = c.WithWait(10 * time.Second)
		}
		for range revocations {
			d := revoke(t, site, c, site.Key(p), waits)
			if waits {
				took = append(took, d)
			}
		}
		regular := float64(3*len(s.Info().Checkers)) * time.Since(since).Seconds() / canaryEvery.Seconds()
		extra[waits] = max(0, (float64(canaries(t, s)-before)-regular)/(2*revocations)) // a creation and a revocation per key
	}
	rate := float64(served.Load()) / time.Since(began).Seconds()
	end()
	slices.Sort(took)
	p99 := ms(took[len(took)*99/100])
	b.row(inForceRow, fmt.Sprintf("%.0f ms (median %.0f ms, maximum %.0f ms) with %.0f checks per second", p99, ms(took[len(took)/2]), ms(took[len(took)-1]), rate),
		fmt.Sprintf("%d ms", inForceBar), p99 <= inForceBar)
	b.row("additional canaries of the replicas per change: without waiting; with waiting", fmt.Sprintf("%.2f; %.2f", extra[false], extra[true]), "0.05", max(extra[false], extra[true]) <= 0.05)
}

// busy sends checks to all replicas until end is called.
func busy(t *testing.T, site *stacktest.Site, k stacktest.Key) (served *atomic.Int64, end func()) {
	t.Helper()
	served = &atomic.Int64{}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range loadStreams {
		for _, r := range stacktest.Replicas(t, site.Stack) {
			all.Go(func() {
				tick := time.NewTicker(checkEvery)
				defer tick.Stop()
				for ctx.Err() == nil {
					a, err := r.Check(context.WithoutCancel(ctx), site.Project+"-"+site.Env, "hello", k.Full)
					if err != nil || a.Status != http.StatusOK {
						t.Errorf("%s: got status %d, %v, want 200", r.URL, a.Status, err)
						return
					}
					served.Add(1)
					<-tick.C
				}
			})
		}
	}
	return served, func() { stop(); all.Wait() }
}

func revoke(t *testing.T, site *stacktest.Site, c *client.Client, k stacktest.Key, waits bool) time.Duration {
	t.Helper()
	began := time.Now()
	got, err := c.RevokeKey(t.Context(), site.Project, k.ID)
	took := time.Since(began)
	if err != nil || waits != (got.InForce != nil) || waits && !got.InForce.Everywhere {
		t.Fatalf("revoke: %+v, %v", got.InForce, err)
	}
	return took
}

func canaries(t *testing.T, s *stack.Stack) (n int64) {
	t.Helper()
	st := stacktest.Store(t, s)
	for _, collection := range []string{"keys", "plans", "counters"} {
		for i := range s.Info().Checkers {
			doc, err := st.Collection(collection).Doc(fmt.Sprintf("canary.checker-%d", i)).Get(t.Context())
			check.OK(t, err)
			seq, ok := doc.Data()["seq"].(int64)
			if !ok {
				t.Fatalf("got canary %v, want a sequence number", doc.Data())
			}
			n += seq
		}
	}
	return n
}
