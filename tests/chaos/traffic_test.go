package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// pause is the interval between the requests of a stream, and longer the one for witnesses.
const (
	pause  = 25 * time.Millisecond
	longer = 100 * time.Millisecond
)

// sample is a request; the status is 0 without a response.
type sample struct {
	begin, end time.Time
	status     int
	code       string
}

type stream struct {
	name  string
	every time.Duration
	ask   func(ctx context.Context) (stacktest.Answer, error)

	mu      sync.Mutex
	samples []sample
}

func (y *stream) run(ctx context.Context) {
	tick := time.NewTicker(y.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		begin := time.Now()
		a, err := y.ask(context.WithoutCancel(ctx))
		s := sample{begin: begin, end: time.Now(), status: a.Status}
		if err != nil {
			s.status = 0
		} else if a.Status >= http.StatusBadRequest {
			s.code = a.Code()
		}
		y.mu.Lock()
		y.samples = append(y.samples, s)
		y.mu.Unlock()
		<-tick.C
	}
}

// count returns the number of matching requests that began in [from, to). A zero time is no
// bound.
func (y *stream) count(from, to time.Time, so func(sample) bool) (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, s := range y.samples {
		if !s.begin.Before(from) && (to.IsZero() || s.begin.Before(to)) && so(s) {
			n++
		}
	}
	return n
}

// longest returns the longest duration of consecutive matching requests since from.
func (y *stream) longest(from time.Time, match func(sample) bool) (d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	var began time.Time
	for _, s := range y.samples {
		switch {
		case s.begin.Before(from) || !match(s):
			began = time.Time{}
		case began.IsZero():
			began = s.begin
		}
		if !began.IsZero() {
			d = max(d, s.end.Sub(began))
		}
	}
	return d
}

func allowed(s sample) bool { return s.status == http.StatusOK }
func answer(sample) bool    { return true }

// unclear matches requests without a response, which may have been counted.
func unclear(s sample) bool {
	return s.status == 0 || s.status >= http.StatusInternalServerError && s.code != "gate_unavailable"
}

func denied(status int, code string) func(sample) bool {
	return func(s sample) bool { return s.status == status && s.code == code }
}

func not(f func(sample) bool) func(sample) bool { return func(s sample) bool { return !f(s) } }

// until waits for a matching response to a request that begins from now on.
func (y *stream) until(t *testing.T, what string, within time.Duration, so func(sample) bool) {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for y.count(begin, time.Time{}, so) == 0 {
		if time.Since(begin) > within {
			y.mu.Lock()
			last := y.samples[max(0, len(y.samples)-1):]
			t.Errorf("%s: not %s within %v; last response %+v", y.name, what, within, last)
			y.mu.Unlock()
			return
		}
		<-tick.C
	}
}

// traffic goes to each replica directly and through the ingress during a fault.
type traffic struct {
	replicas  [2]*stream
	doomed    [2]*stream
	metered   [2]*stream
	rated     [2]*stream
	ingress   *stream
	keyless   *stream
	open      *stream
	witnesses [witnesses][2]*stream
	end       func()
}

// startTraffic also sends requests to "open", which has no gate.
func startTraffic(t *testing.T, s *stacktest.Site, x *trial) *traffic {
	t.Helper()
	f := &traffic{
		ingress: &stream{name: "ingress", every: pause, ask: s.Call("hello").Key(x.key).Try},
		keyless: &stream{name: "ingress without a key", every: pause, ask: s.Call("hello").Try},
		open:    &stream{name: "app without a gate", every: pause, ask: s.Call("open").Try},
	}
	straight := func(key stacktest.Key, with string, every time.Duration) (to [2]*stream) {
		for i, r := range stacktest.Replicas(t, world) {
			to[i] = &stream{name: r.URL + with, every: every, ask: func(ctx context.Context) (stacktest.Answer, error) {
				return r.Check(ctx, s.Project+"-"+s.Env, "hello", key.Full)
			}}
		}
		return to
	}
	f.replicas = straight(x.key, "", pause)
	f.doomed = straight(x.doomed, " with the revoked key", pause)
	f.metered = straight(x.metered, " with the metered key", pause)
	f.rated = straight(x.rated, " with the key that has a rate", pause)
	for i, key := range x.witnesses {
		f.witnesses[i] = straight(key, fmt.Sprintf(" with witness %d", i), longer)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	for _, y := range f.all() {
		streams.Go(func() { y.run(ctx) })
	}
	f.end = func() { cancel(); streams.Wait() }
	return f
}

func (f *traffic) all() []*stream {
	return slices.Concat(f.keyed(), f.doomed[:], f.metered[:], f.rated[:], f.ofWitnesses(), []*stream{f.keyless, f.open})
}

func (f *traffic) ofWitnesses() (all []*stream) {
	for _, to := range f.witnesses {
		all = append(all, to[:]...)
	}
	return all
}

func (f *traffic) keyed() []*stream { return []*stream{f.replicas[0], f.replicas[1], f.ingress} }
