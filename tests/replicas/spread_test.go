package replicas

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// connectionAge is about how long connections to checkers live here: much shorter than
// usual, so that many end while the tests run.
const connectionAge = 2 * time.Second

// TestSpread: the ingress keeps one connection, and asks each checker in turn as its
// connections grow old; no request fails when one ends. One key's rate is still its rate.
func TestSpread(t *testing.T) {
	const every, clients = 20 * time.Millisecond, 4
	lasts := long.Pick(12*time.Second, 30*time.Second)
	n := numbers()[0]
	row := together.Test(t, fmt.Sprint(n), fmt.Sprintf("through one ingress, connections of %v or so", connectionAge), "each is asked, no request fails, and a key's rate is its rate")
	s := stackOf(t, n)
	site := stacktest.New(t, s)
	site.GatedApp("hello")
	rate, burst := 20.0, int64(20)
	all, limited := site.AnyKey(), site.Key(site.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
	site.Opens("hello", all)
	site.Opens("hello", limited)
	before := decided(t, s)
	var mu sync.Mutex
	got := map[string]map[int]int{all.ID: {}, limited.ID: {}}
	var askers sync.WaitGroup
	for _, key := range []stacktest.Key{all, limited} {
		for range clients {
			askers.Go(func() {
				tick := time.NewTicker(every)
				defer tick.Stop()
				for begun := time.Now(); time.Since(begun) < lasts; <-tick.C {
					a, err := site.Call("hello").Key(key).Try(t.Context())
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					got[key.ID][a.Status]++
					mu.Unlock()
				}
			})
		}
	}
	askers.Wait()
	var shares []int
	sum := 0.0
	after := decided(t, s)
	for i := range after {
		sum += after[i] - before[i]
	}
	for i := range after {
		shares = append(shares, int(100*(after[i]-before[i])/sum+0.5))
	}
	row.Measured(fmt.Sprintf("%v %% of %.0f questions; the key with a rate of %v a second got %v in %v", shares, sum, rate, got[limited.ID], lasts))
	for i, share := range shares {
		if share < 5 {
			t.Errorf("replica %d answered %d %%", i, share)
		}
	}
	if len(got[all.ID]) != 1 || got[all.ID][http.StatusOK] == 0 {
		t.Errorf("the key without a limit got %v", got[all.ID])
	}
	most := 1.05*rate*lasts.Seconds() + float64(burst)
	if ok := got[limited.ID][http.StatusOK]; ok+got[limited.ID][http.StatusTooManyRequests] == 0 || float64(ok) > most || float64(ok) < 0.95*rate*lasts.Seconds() {
		t.Errorf("the key with a rate got %v", got[limited.ID])
	}
}
