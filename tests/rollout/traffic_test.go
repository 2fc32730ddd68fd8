package rollout

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const (
	perSecond = 300 // requests through the ingress
	workers   = 8
)

type answer struct {
	begin, end time.Time
	key        string // ID of the key, or ""
	status     int    // 0 without a response
	code       string // of a denial
	header     http.Header
	err        error
}

// bare reports whether the response is the proxy's own, not the gate's.
func (a answer) bare() bool { return a.status >= http.StatusInternalServerError && a.code == "" }

// traffic is constant load on an app. Every third request has no key; the others alternate the
// keys.
type traffic struct {
	t       testing.TB
	end     context.CancelFunc
	wg      sync.WaitGroup
	client  *http.Client
	host    string
	keys    []stacktest.Key
	mu      sync.Mutex
	answers []answer
	next    atomic.Int64
}

func begin(t testing.TB, s *stacktest.Site, app string, keys ...stacktest.Key) *traffic {
	t.Helper()
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	y := &traffic{t: t, end: end, client: stacktest.Ingress(world), host: s.Host(app), keys: keys}
	ticks := make(chan struct{})
	y.wg.Go(func() {
		defer close(ticks)
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case <-ctx.Done():
				return
			case ticks <- struct{}{}:
			}
		}
	})
	for range workers {
		y.wg.Go(func() {
			for range ticks {
				y.one()
			}
		})
	}
	return y
}

func (y *traffic) one() {
	n := int(y.next.Add(1))
	a := answer{begin: time.Now()}
	// Finish the last requests, so that the counts are exact.
	req, err := http.NewRequestWithContext(context.WithoutCancel(y.t.Context()), http.MethodGet, "http://"+y.host+"/", nil)
	if err != nil {
		y.t.Error(err)
		return
	}
	if n%3 != 0 {
		k := y.keys[n/3%len(y.keys)]
		a.key = k.ID
		req.Header.Set("X-API-Key", k.Full)
	}
	res, err := y.client.Do(req)
	if a.err = err; err == nil {
		var body []byte
		body, a.err = io.ReadAll(res.Body)
		_ = res.Body.Close()
		a.status, a.header = res.StatusCode, res.Header
		var e wire.Error
		if json.Unmarshal(body, &e) == nil {
			a.code = e.Code
		}
	}
	a.end = time.Now()
	y.mu.Lock()
	y.answers = append(y.answers, a)
	y.mu.Unlock()
}

// stop ends the load and returns the responses in request order.
func (y *traffic) stop() []answer {
	y.end()
	y.wg.Wait()
	slices.SortFunc(y.answers, func(a, b answer) int { return a.begin.Compare(b.begin) })
	return y.answers
}

// until waits for a wanted response to a request that began after from.
func (y *traffic) until(what string, from time.Time, wanted func(answer) bool) answer {
	y.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		y.mu.Lock()
		for _, a := range slices.Backward(y.answers) {
			if a.begin.After(from) && wanted(a) {
				y.mu.Unlock()
				return a
			}
		}
		y.mu.Unlock()
		select {
		case <-late:
			y.t.Fatalf("no response within a minute that is %s", what)
		case <-tick.C:
		}
	}
}

// runFor continues the load for d.
func (y *traffic) runFor(d time.Duration) {
	from := time.Now().Add(d)
	y.until("later", from, func(answer) bool { return true })
}

// all returns the responses to requests that began in [from, to).
func all(answers []answer, from, to time.Time) []answer {
	return slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return a.begin.Before(from) || !a.begin.Before(to) })
}
