package deploys

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/storetest"
)

// moody is an unreliable sink: it hangs, fails before or after accepting, sends Retry-After, or
// is down.
type moody struct {
	mu    sync.Mutex
	away  bool
	calls int
	heard map[string][]string
	ids   map[string]int
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mood := rand.IntN(100)
	if mood == 0 {
		select { // longer than the sender's timeout
		case <-r.Context().Done():
		case <-time.After(2 * announceTimeout):
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	switch {
	case m.away: // disconnects like a killed process
		panic(http.ErrAbortHandler)
	case mood == 0:
		return
	case mood < 15:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case mood == 15:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	id, subject := r.Header.Get("Ce-Id"), r.Header.Get("Ce-Subject")
	if m.ids[id]++; m.ids[id] == 1 {
		m.heard[subject] = append(m.heard[subject], r.Header.Get("Ce-Type"))
	}
	if mood < 25 { // accepted, but the response is lost
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (m *moody) set(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

func (m *moody) events() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ids)
}

type sender struct {
	outboxSender *outboxSender
	kill         context.CancelFunc
	ended        chan struct{}
}

func startSender(t *testing.T, st *store.Store, url string) *sender {
	t.Helper()
	sink, err := buildevent.NewSink(url, "/sluice", "")
	check.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{outboxSender: newOutboxSender(st, sink, 20*time.Millisecond, functest.Quiet()), kill: cancel, ended: make(chan struct{})}
	go func() { defer close(s.ended); s.outboxSender.run(ctx) }()
	return s
}

const floodChanges = 20

// The sink fails at random, and senders are killed and restarted. Every event arrives, and
// without repetitions each subject's events are in order (promise D14).
func TestFlood(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	writing, sending := storetest.Open(t, project), storetest.Open(t, project)
	writing.AnnounceEvents(true)
	var commits, queries atomic.Int64
	sending.Observe(func(op, _ string, _ time.Duration, _ bool) {
		switch op {
		case "commit", "batch_write":
			commits.Add(1)
		case "run_query":
			queries.Add(1)
		}
	})
	sink := &moody{heard: map[string][]string{}, ids: map[string]int{}}
	server := httptest.NewServer(sink)
	t.Cleanup(server.Close)

	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := make(chan struct{})
	var senders sync.WaitGroup
	for i := range 2 {
		senders.Go(func() {
			for {
				s := startSender(t, sending, server.URL)
				select {
				case <-stop:
					s.kill()
					<-s.ended
					return
				case <-time.After(time.Duration(1+i) * time.Second):
					s.kill()
					<-s.ended
				}
			}
		})
	}
	keys := long.Pick(30, 100)
	want := flood(t, writing, sink, keys)
	check.Eventually(t, "send all events", patience, func() error {
		if got := sink.events(); got != keys*floodChanges {
			return fmt.Errorf("got %d, want %d", got, keys*floodChanges)
		}
		return nil
	})
	close(stop)
	senders.Wait()
	var after runtime.MemStats
	runtime.ReadMemStats(&after)

	sink.mu.Lock()
	defer sink.mu.Unlock()
	check.Equal(t, "heard", want, sink.heard)
	left, err := sending.Announcements(t.Context(), event.Cursor{}, 1000)
	check.OK(t, err)
	again := 0
	for _, n := range sink.ids {
		again += n - 1
	}
	t.Logf("%d events in %d calls, %d repeated, %d accepted but still in the outbox", len(sink.ids), sink.calls, again, len(left))
	t.Logf("store: 1 document written with each change, %d commits and %d reads of a page to send them", commits.Load(), queries.Load())
	t.Logf("heap %d KiB before, %d KiB after", before.HeapAlloc>>10, after.HeapAlloc>>10)
}

func flood(t *testing.T, st *store.Store, sink *moody, keys int) map[string][]string {
	t.Helper()
	storetest.Environment(t, st, "shop", "prod")
	storetest.Make(t, func() error {
		_, err := st.CreatePlan(t.Context(), plan.Plan{ID: "plan-starter", Namespace: "shop-prod", Name: "Starter", Limits: plan.Limits{Rate: 1, Burst: 1}})
		return err
	})
	want := map[string][]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	room := make(chan struct{}, 8)
	for i := range keys {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			sink.set(i > keys/3 && i < keys/2) // down for a while
			id, types := lifeOf(t, st, i)
			mu.Lock()
			defer mu.Unlock()
			want[id] = types
		})
	}
	all.Wait()
	sink.set(false)
	return want
}

func lifeOf(t *testing.T, st *store.Store, i int) (id string, types []string) {
	t.Helper()
	k := apikey.Key{
		Prefix: apikey.Prefix(fmt.Sprintf("key%05d", i)), Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-starter",
		Status: apikey.Active, Secret: apikey.Hash{1},
	}
	storetest.Make(t, func() error { _, err := st.IssueKey(t.Context(), k, apikey.Request{}, 0); return err })
	types = append(types, string(event.KeyCreated))
	for n := 1; n < floodChanges; n++ {
		next := k
		switch n % 3 {
		case 0:
			next.Secret[1]++
		case 1:
			next.Status = apikey.Disabled
		case 2:
			next.Status = apikey.Active
		}
		for {
			_, _, err := st.ReissueKey(t.Context(), k.ID(), apikey.Request{}, func(apikey.Key) (apikey.Key, error) { return next, nil })
			if err == nil {
				break
			}
			if !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.Conflict) {
				t.Error(err)
				return string(k.ID()), types
			}
		}
		kind, ok := event.OfKeyChange(k, next)
		if !ok {
			t.Errorf("change %d had no effect", n)
		}
		types, k = append(types, string(kind)), next
	}
	return string(k.ID()), types
}
