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

// pause is between two requests of a stream, longer those of a witness. A stream never has
// two open.
const (
	pause  = 25 * time.Millisecond
	longer = 100 * time.Millisecond
)

// sample is one request that was answered, or that got no answer: status 0.
type sample struct {
	begin, end time.Time
	status     int
	code       string // of a denial
}

// stream asks one question again and again.
type stream struct {
	name  string
	every time.Duration // from one request to the next
	ask   func(ctx context.Context) (stacktest.Answer, error)

	mu      sync.Mutex
	samples []sample
}

func (y *stream) run(ctx context.Context) {
	tick := time.NewTicker(y.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		begin := time.Now()
		a, err := y.ask(context.WithoutCancel(ctx)) // the last one is answered too
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

// count is how many requests that began in [from, to) ended so. The zero time is no
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

// longest returns the duration of the longest series of consecutive matching requests
// since from.
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

// unclear is a request that may have been counted although it was not served: who
// asked the replica for it did not hear the answer.
func unclear(s sample) bool {
	return s.status == 0 || s.status >= http.StatusInternalServerError && s.code != "gate_unavailable"
}

func denied(status int, code string) func(sample) bool {
	return func(s sample) bool { return s.status == status && s.code == code }
}

func not(f func(sample) bool) func(sample) bool { return func(s sample) bool { return !f(s) } }

// until waits for an answer to a request that begins from now on.
func (y *stream) until(t *testing.T, what string, within time.Duration, so func(sample) bool) {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for y.count(begin, time.Time{}, so) == 0 {
		if time.Since(begin) > within {
			y.mu.Lock()
			last := y.samples[max(0, len(y.samples)-1):]
			t.Errorf("%s: not %s within %v; last answer %+v", y.name, what, within, last)
			y.mu.Unlock()
			return
		}
		<-tick.C
	}
}

// traffic is what goes on while a fault comes and goes: straight to each replica with
// a key that is good and with one that gets revoked, and through the ingress.
type traffic struct {
	replicas  [2]*stream            // with the good key
	doomed    [2]*stream            // with the key that gets revoked
	metered   [2]*stream            // with the key that has a quota
	rated     [2]*stream            // with the key that has a rate
	ingress   *stream               // with the good key
	keyless   *stream               // through the ingress to the gated app
	open      *stream               // through the ingress to an app without a gate
	witnesses [witnesses][2]*stream // with each of the keys whose revocation is waited for
	end       func()                // stops all and waits for their last answers
}

// startTraffic asks about app "hello" and the app without a gate, "open".
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

// keyed are the streams with the good key.
func (f *traffic) keyed() []*stream { return []*stream{f.replicas[0], f.replicas[1], f.ingress} }
