package replicas

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// connectionAge is the age limit of connections to checkers, reduced so that many end during the
// tests.
const connectionAge = 2 * time.Second

// TestSpread checks the distribution of requests as connections reach their age limit.
func TestSpread(t *testing.T) {
	const every, clients = 20 * time.Millisecond, 4
	least := long.Pick(12*time.Second, 30*time.Second)
	const most = time.Minute // by chance, a checker may be used late
	n := numbers()[0]
	row := together.Test(t, fmt.Sprint(n), fmt.Sprintf("one ingress, connections of about %v", connectionAge), "every checker is used; no request fails; the key's rate holds")
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
	begun, enough := time.Now(), make(chan struct{})
	for _, key := range []stacktest.Key{all, limited} {
		for range clients {
			askers.Go(func() {
				tick := time.NewTicker(every)
				defer tick.Stop()
				for {
					select {
					case <-enough:
						return
					case <-tick.C:
					}
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
	shares, sum := shareOf(before, decided(t, s))
	for time.Since(begun) < least || slices.Min(shares) < 5 && time.Since(begun) < most {
		time.Sleep(time.Second)
		shares, sum = shareOf(before, decided(t, s))
	}
	close(enough)
	askers.Wait()
	lasted := time.Since(begun)
	row.Measured(fmt.Sprintf("%v%% of %.0f requests; key with rate %v: %v in %v", shares, sum, rate, got[limited.ID], lasted.Round(time.Second)))
	for i, share := range shares {
		if share < 5 {
			t.Errorf("share of replica %d: got %d%%, want at least 5%%", i, share)
		}
	}
	if len(got[all.ID]) != 1 || got[all.ID][http.StatusOK] == 0 {
		t.Errorf("key without a limit: got %v, want only 200", got[all.ID])
	}
	highest := 1.05*rate*lasted.Seconds() + float64(burst)
	if ok := got[limited.ID][http.StatusOK]; ok+got[limited.ID][http.StatusTooManyRequests] == 0 || float64(ok) > highest || float64(ok) < 0.95*rate*lasted.Seconds() {
		t.Errorf("key with a rate: got %v", got[limited.ID])
	}
}

// shareOf returns each replica's share of the decisions between two counts, in percent, and their
// sum.
func shareOf(before, after []float64) (shares []int, sum float64) {
	for i := range after {
		sum += after[i] - before[i]
	}
	for i := range after {
		shares = append(shares, int(100*(after[i]-before[i])/sum+0.5))
	}
	return shares, sum
}
