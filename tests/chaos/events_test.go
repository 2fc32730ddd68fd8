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

type eventSink struct {
	mu       sync.Mutex
	away     bool
	ids      map[string]bool
	received map[string][]event.Type
	repeated int
}

func listenForEvents(address string) (*eventSink, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &eventSink{ids: map[string]bool{}, received: map[string][]event.Type{}}
	go func() { _ = (&http.Server{Handler: s, ReadHeaderTimeout: callLimit}).Serve(l) }()
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
		s.repeated++
		return
	}
	s.ids[id] = true
	s.received[subject] = append(s.received[subject], event.Type(r.Header.Get("Ce-Type")))
}

func (s *eventSink) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *eventSink) of(subject string) []event.Type {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received[subject])
}

type lived struct {
	id      string
	changes []event.Type
	unsure  event.Type // may have happened too; "" for none
}

// matches reports whether the received events are those of the key.
func (l lived) matches(received []event.Type) bool {
	return slices.Equal(received, l.changes) || l.unsure != "" && slices.Equal(received, append(slices.Clone(l.changes), l.unsure))
}

// liveKey creates, disables, enables and revokes a key until a call fails. ok is false if it was
// not created.
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

func eventsCell(name string) cell {
	if name == emptyStore {
		return cell{want: "undelivered events are lost"}
	}
	return cell{
		during: func(x *trial) {
			if l, ok := x.liveKey("events during " + x.fault); ok {
				*x.lives = append(*x.lives, l)
			}
		},
		after: func(x *trial) {
			x.eventually("create a key with an event", func() reply { return x.createKey("events probe " + x.fault) }, http.StatusCreated)
			if l, ok := x.liveKey("events after " + x.fault); ok {
				*x.lives = append(*x.lives, l)
			}
			began, slowest := time.Now(), time.Duration(0)
			for _, l := range *x.lives {
				for !l.matches(sink.of(l.id)) {
					if time.Since(began) > time.Minute {
						x.t.Errorf("events of %s: got %v, want %v and possibly %q", l.id, sink.of(l.id), l.changes, l.unsure)
						break
					}
					wait(x.t, 100*time.Millisecond)
				}
				slowest = time.Since(began)
			}
			x.note("%d keys after %.1f s", len(*x.lives), slowest.Seconds())
		},
	}
}

func sinkAway() fault {
	return fault{
		name: "Event sink down", begin: func(*trial) { sink.set(true) }, end: func(*trial) { sink.set(false) },
		cells: [surfaces]cell{
			gate:       {during: all(serves(3*time.Second), revokesInTime)},
			management: {during: manages},
			webhook:    {during: hooks, after: hooksAgain},
			deploys:    {during: deploysNow},
			rollup:     {during: rolls},

			acknowledgement: confirmed(),
		},
	}
}
