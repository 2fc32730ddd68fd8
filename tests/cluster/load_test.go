package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// load sends requests to a gated app, half of them with a key.
type load struct {
	site *stacktest.Site
	key  stacktest.Key
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	sent    int
	failed  map[string]int // unexpected responses
	allowed int
	gap     time.Duration // longest time between two successful requests with the key
	last    time.Time
}

const (
	streams = 4
	pause   = 20 * time.Millisecond
)

func begin(t *testing.T, s *stacktest.Site) *load {
	t.Helper()
	s.GatedApp("busy")
	l := &load{site: s, key: s.AnyKey(), failed: map[string]int{}, last: time.Now()}
	s.Opens("busy", l.key)
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for range streams {
		l.done.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				l.one(ctx, n%2 == 0)
				<-tick.C
			}
		})
	}
	t.Cleanup(stop)
	return l
}

func (l *load) one(ctx context.Context, withKey bool) {
	call, want := l.site.Call("busy"), http.StatusUnauthorized
	if withKey {
		call, want = call.Key(l.key), http.StatusOK
	}
	a, err := call.Try(context.WithoutCancel(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	switch {
	case err != nil:
		l.failed["no response: "+err.Error()]++
	case a.Status == want && withKey:
		l.gap, l.last = max(l.gap, time.Since(l.last)), time.Now()
	case a.Status == want:
	case a.Status == http.StatusOK:
		l.allowed++
	default:
		l.failed[strings.TrimSpace(fmt.Sprint(a.Status, " ", a.Code()))]++
	}
}

// end fails the test if a request without a key was allowed, or more than maxFailed requests
// failed.
func (l *load) end(t *testing.T, what string, maxFailed int) (summary string) {
	t.Helper()
	l.stop()
	l.done.Wait()
	total := 0
	for _, n := range l.failed {
		total += n
	}
	summary = fmt.Sprintf("%d of %d failed %v, longest pause %v", total, l.sent, l.failed, l.gap.Round(time.Millisecond))
	t.Logf("%s: %s", what, summary)
	if l.allowed > 0 {
		t.Errorf("%s: got %d allowed requests without a key, want none", what, l.allowed)
	}
	if total > maxFailed || l.sent == 0 {
		t.Errorf("%s: got %d failed of %d requests, want at most %d: %v", what, total, l.sent, maxFailed, slices.Sorted(maps.Keys(l.failed)))
	}
	return summary
}
