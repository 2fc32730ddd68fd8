package keys

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/store/storetest"
)

// fill stores n keys of plan-starter in prod without the HTTP handler and the limit.
func (w *world) fill(n int) {
	w.Helper()
	each(n, 16, func() {
		prefix, err := apikey.NewPrefix(apikey.Random())
		if err != nil {
			w.Error(err)
		}
		_, err = w.store.IssueKey(w.Context(), apikey.Key{
			Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-starter", Status: apikey.Active,
		}, apikey.Request{}, 0)
		if err != nil {
			w.Error(err)
		}
	})
}

// each calls f n times, from a number of callers at once.
func each(n, callers int, f func()) {
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for range min(n, callers) {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				f()
			}
		})
	}
	all.Wait()
}

// BenchmarkCreateKeys creates keys through the HTTP handler. Run it with -benchtime 200x.
func BenchmarkCreateKeys(b *testing.B) {
	for _, listeners := range []int{0, 2} {
		for _, stored := range []int{0, 2000} {
			for _, callers := range []int{1, 10, 25, 50, 100} {
				b.Run(fmt.Sprintf("stored=%d/callers=%d/listeners=%d", stored, callers, listeners), func(b *testing.B) {
					project := storetest.Project(b)
					w := newWorldIn(b, project)
					w.makePlan(prod)
					w.fill(stored)
					for range listeners {
						listen(b, project)
					}
					var mu sync.Mutex
					var took []time.Duration
					var failed int
					b.ResetTimer()
					each(b.N, callers, func() {
						begun := time.Now()
						a := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter"}`)
						mu.Lock()
						defer mu.Unlock()
						took = append(took, time.Since(begun))
						if a.status != http.StatusCreated {
							failed++
						}
					})
					b.StopTimer()
					slices.Sort(took)
					b.ReportMetric(float64(b.N-failed)/b.Elapsed().Seconds(), "keys/s")
					b.ReportMetric(took[len(took)*99/100].Seconds(), "s-p99")
					b.ReportMetric(float64(failed), "failed")
				})
			}
		}
	}
}

// listen listens to all keys, as a checker does.
func listen(b *testing.B, project string) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	r := &listener{first: make(chan struct{})}
	go func() { _ = store.NewFeed(project).Keys(ctx, r) }()
	<-r.first
}

type listener struct {
	once  sync.Once
	first chan struct{}
	ids   map[string]bool
}

func (l *listener) Receive(b store.Batch[apikey.Key]) error {
	if b.Reset || l.ids == nil {
		l.ids = map[string]bool{}
	}
	for _, c := range b.Changes {
		l.ids[c.ID] = true
	}
	l.once.Do(func() { close(l.first) })
	return nil
}
func (l *listener) Heard()   {}
func (l *listener) Len() int { return len(l.ids) }
