package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/event"
)

// eventSink takes the events of the stack.
type eventSink struct {
	mu    sync.Mutex
	away  bool
	ids   map[string]bool
	heard map[string][]event.Type // by subject, each event once
	again int                     // came
}

// listenForEvents serves the sink until the process ends.
func listenForEvents(address string) (*eventSink, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &eventSink{ids: map[string]bool{}, heard: map[string][]event.Type{}}
	go func() { _ = (&http.Server{Handler: s, ReadHeaderTimeout: callLimit}).Serve(l) }() // it ends with the process
	return s, nil
}

func (s *eventSink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		panic(http.ErrAbortHandler)
	}
	id, subject := r.Header.Get("Ce-Id"), r.Header.Get("Ce-Subject")
	if s.ids[id] {
		s.again++
		return
	}
	s.ids[id] = true
	s.heard[subject] = append(s.heard[subject], event.Type(r.Header.Get("Ce-Type")))
}

func (s *eventSink) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *eventSink) of(subject string) []event.Type {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heard[subject])
}

// lived is a key with what happened to it, as far as the API has said so.
type lived struct {
	id      string
	changes []event.Type
	unsure  event.Type // may have happened too; "" is nothing
}

// told tells whether that is what the sink was told.
func (l lived) told(heard []event.Type) bool {
	return slices.Equal(heard, l.changes) || l.unsure != "" && slices.Equal(heard, append(slices.Clone(l.changes), l.unsure))
}

// liveKey makes a key, switches it off and on, and revokes it, as far as that goes. ok is
// false where it was not even made.
func (x *trial) liveKey(name string) (l lived, ok bool) {
	made := x.createKey(name)
	var k struct{ ID string }
	if made.status != http.StatusCreated || json.Unmarshal(made.body, &k) != nil {
		return l, false
	}
	l = lived{id: k.ID, changes: []event.Type{event.KeyCreated}}
	url := fmt.Sprintf("%s/api/v1/projects/%s/api-keys/%s", world.Info().BaseURL, x.Project, k.ID)
	for _, step := range []struct {
		method, at string
		body       any
		means      event.Type
	}{
		{http.MethodPatch, "", map[string]any{"status": "disabled"}, event.KeyDisabled},
		{http.MethodPatch, "", map[string]any{"status": "active"}, event.KeyEnabled},
		{http.MethodPost, "/revoke", struct{}{}, event.KeyRevoked},
	} {
		if r := x.call(step.method, url+step.at, step.body, "Authorization", "Bearer "+x.token); r.status != http.StatusOK {
			l.unsure = step.means
			return l, true
		}
		l.changes = append(l.changes, step.means)
	}
	return l, true
}

// eventsCell is the same under every fault, but where the store is lost.
func eventsCell(name string) cell {
	if name == emptyStore {
		return cell{must: "what waited is gone with everything else"}
	}
	return cell{
		must: "whatever was changed during it and after it is told, in its order, within a minute of its end",
		during: func(x *trial) {
			if l, ok := x.liveKey("events during " + x.fault); ok {
				*x.lives = append(*x.lives, l)
			}
		},
		after: func(x *trial) {
			x.eventually("make a key to be told of", func() reply { return x.createKey("events probe " + x.fault) }, http.StatusCreated)
			if l, ok := x.liveKey("events after " + x.fault); ok {
				*x.lives = append(*x.lives, l)
			}
			began, slowest := time.Now(), time.Duration(0)
			for _, l := range *x.lives {
				for !l.told(sink.of(l.id)) {
					if time.Since(began) > time.Minute {
						x.t.Errorf("told %v of %s, which has seen %v (and perhaps %q)", sink.of(l.id), l.id, l.changes, l.unsure)
						break
					}
					wait(x.t, 100*time.Millisecond)
				}
				slowest = time.Since(began)
			}
			x.note("%d keys' lives told %.1f s after the last change", len(*x.lives), slowest.Seconds())
		},
	}
}

// sinkAway is the fault of who listens.
func sinkAway() fault {
	return fault{
		name: "sink of events away", begin: func(*trial) { sink.set(true) }, end: func(*trial) { sink.set(false) },
		cells: [surfaces]cell{
			gate:       {must: "serves, and a revocation acts", during: all(serves(3*time.Second), revokesInTime)},
			management: {must: "works", during: manages},
			webhook:    {must: "deploys", during: hooks, after: hooksAgain},
			deploys:    {must: "goes live", during: deploysNow},
			rollup:     {must: "runs; no count is lost", during: rolls},

			acknowledgement: followed(),
		},
	}
}
