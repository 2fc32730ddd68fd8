package stacktest

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/shared/usage"
)

// Load is a number of checks, sent directly to the replicas in turn.
type Load struct {
	Replicas    func() []Replica // called once per connection
	Connections int
	Requests    int
	PerSecond   int             // 0 is unlimited
	Pick        func(i int) Key // key of request i
	App         string

	// At is called after half of the requests.
	At func()
}

// Tally counts responses.
type Tally struct {
	mu      sync.Mutex
	totals  map[string]usage.Totals // by key ID
	unclear map[string]uint64       // without a response; they may have been counted
	last    []map[string][]time.Time
}

// Totals returns the counts of a key.
func (y *Tally) Totals(id string) usage.Totals { return y.totals[id] }

// Unclear returns the number of a key's requests without a response.
func (y *Tally) Unclear(id string) uint64 { return y.unclear[id] }

// AnsweredSince returns the number of a key's responses from a replica since t.
func (y *Tally) AnsweredSince(replica int, id string, t time.Time) (n uint64) {
	for _, at := range y.last[replica][id] {
		if !at.Before(t) {
			n++
		}
	}
	return n
}

// Run runs the load.
func (s *Site) Run(l Load) *Tally {
	s.T.Helper()
	y := &Tally{totals: map[string]usage.Totals{}, unclear: map[string]uint64{}}
	for range l.Replicas() {
		y.last = append(y.last, map[string][]time.Time{})
	}
	var next atomic.Int64
	var half sync.Once
	begin := time.Now()
	var wg sync.WaitGroup
	for range l.Connections {
		wg.Go(func() {
			replicas := l.Replicas()
			for {
				i := int(next.Add(1)) - 1
				if i >= l.Requests {
					return
				}
				if l.PerSecond > 0 {
					s.wait(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(l.PerSecond))))
				}
				if i >= l.Requests/2 && l.At != nil {
					half.Do(l.At)
				}
				at := i % len(replicas)
				s.one(y, replicas[at], at, l.App, l.Pick(i))
			}
		})
	}
	wg.Wait()
	return y
}

func (s *Site) wait(d time.Duration) {
	select {
	case <-s.T.Context().Done():
	case <-time.After(d):
	}
}

func (s *Site) one(y *Tally, r Replica, at int, app string, k Key) {
	a, err := r.Check(context.WithoutCancel(s.T.Context()), s.Project+"-"+s.Env, app, k.Full)
	y.mu.Lock()
	defer y.mu.Unlock()
	if err != nil {
		y.unclear[k.ID]++
		return
	}
	var add usage.Totals
	switch {
	case a.Status == http.StatusOK:
		add.Allowed = 1
	case a.Code() == "rate_limited":
		add.RateDenied = 1
	case a.Code() == "quota_exhausted":
		add.QuotaDenied = 1
	default:
		return
	}
	y.totals[k.ID] = y.totals[k.ID].Plus(add)
	y.last[at][k.ID] = append(y.last[at][k.ID], time.Now())
}
