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

// load is a steady stream of requests to a gated app through the ingress: half with a key,
// half without one. It goes on until it is ended.
type load struct {
	site *stacktest.Site
	key  stacktest.Key
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	sent   int
	failed map[string]int // what was neither 200 with the key nor 401 without, by answer
	opened int            // allowed without a key
	gap    time.Duration  // the longest between two answers with the key as they must be
	last   time.Time
}

const (
	streams = 4
	pause   = 20 * time.Millisecond // of each stream, between two requests
)

// begin gates an app of the site and sends the load to it.
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
		l.failed["no answer: "+err.Error()]++
	case a.Status == want && withKey:
		l.gap, l.last = max(l.gap, time.Since(l.last)), time.Now()
	case a.Status == want:
	case a.Status == http.StatusOK:
		l.opened++
	default:
		l.failed[strings.TrimSpace(fmt.Sprint(a.Status, " ", a.Code()))]++
	}
}

// end stops the load. Nobody may have been let in without a key, and no more requests than
// allowed may have failed.
func (l *load) end(t *testing.T, what string, allowed int) (said string) {
	t.Helper()
	l.stop()
	l.done.Wait()
	total := 0
	for _, n := range l.failed {
		total += n
	}
	said = fmt.Sprintf("%d of %d requests failed %v, the longest pause of those with a key was %v", total, l.sent, l.failed, l.gap.Round(time.Millisecond))
	t.Logf("%s: %s", what, said)
	if l.opened > 0 {
		t.Errorf("%s: %d requests without a key were let in", what, l.opened)
	}
	if total > allowed || l.sent == 0 {
		t.Errorf("%s: %d of %d requests failed, at most %d may: %v", what, total, l.sent, allowed, slices.Sorted(maps.Keys(l.failed)))
	}
	return said
}
