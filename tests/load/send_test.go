package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// senders is how many requests are open at most; each sender sends its next one when
// it has the answer to the last, so the rate is what the machine holds.
const senders = 32

// maxDetails bounds the wrong answers that are told one by one.
const maxDetails = 20

// sender sends requests for as long as the load lasts, and judges the answers.
type load struct {
	t     *testing.T
	site  *stacktest.Site
	keys  *kinds
	plans plans
	app   string // gated
	end   time.Time

	lasted time.Duration

	strangers []*credential // keys that nobody was ever issued
	away      *timeline     // what may come of checkers being restarted
	aged      atomic.Pointer[[]*credential]

	sent, gone, wrong atomic.Uint64
	byVerdict         [noAnswer + 1]atomic.Uint64
	mu                sync.Mutex
	details           []string
}

// run sends until the end.
func (l *load) run(ctx context.Context) {
	var group sync.WaitGroup
	for i := range senders {
		replicas := stacktest.Replicas(l.t, world)
		group.Go(func() { l.send(ctx, i, replicas) })
	}
	group.Wait()
}

func (l *load) send(ctx context.Context, i int, replicas []stacktest.Replica) {
	for n := i; ctx.Err() == nil; n++ {
		c := l.pick()
		if n%5 == 0 {
			l.ask(c, func(ctx context.Context) (stacktest.Answer, error) {
				return l.site.Call(l.app).Header("X-API-Key", c.text).Try(ctx)
			})
			continue
		}
		l.check(c, replicas[n%len(replicas)])
	}
}

// check asks a replica.
func (l *load) check(c *credential, r stacktest.Replica) verdict {
	return l.ask(c, func(ctx context.Context) (stacktest.Answer, error) {
		return r.Check(ctx, l.site.Project+"-"+l.site.Env, l.app, c.text)
	})
}

// pick chooses a credential: mostly any key, often one with a quota, so that those
// run into it, and now and then one that must not open anything.
func (l *load) pick() *credential {
	switch n := rand.N(100); {
	case n < 3:
		return l.keys.quotas[rand.N(len(l.keys.quotas))].current.Load()
	case n < 4:
		return l.strangers[rand.N(len(l.strangers))]
	case n < 6:
		if aged := *l.aged.Load(); len(aged) > 0 {
			return aged[rand.N(len(aged))]
		}
	}
	return l.keys.all[rand.N(len(l.keys.all))].current.Load()
}

// ask sends one request, holds its answer against the model and keeps it.
func (l *load) ask(c *credential, send func(context.Context) (stacktest.Answer, error)) verdict {
	begin := time.Now()
	a, err := send(context.WithoutCancel(l.t.Context()))
	end := time.Now()
	v := judge(a, err)
	l.sent.Add(1)
	l.byVerdict[v].Add(1)
	if may := c.may(begin, end) | l.away.may(begin, end); may&v == 0 {
		l.tell(fmt.Sprintf("%s at %s: %v (%d %.80s %v), may be %v", c.key.id, begin.Format(time.TimeOnly), v, a.Status, a.Body, err, may))
	}
	switch v {
	case allowed:
		c.key.allowed.Add(1)
	case rateDenied:
		c.key.rate.Add(1)
	case quotaDenied:
		c.key.quota.Add(1)
	case noAnswer:
		if neverSent(err) {
			l.gone.Add(1)
			pause(l.t.Context(), 20*time.Millisecond) // it is being restarted
			break
		}
		c.key.unclear.Add(1)
	case invalidKey, unavailable: // never counted
	}
	return v
}

func (l *load) tell(detail string) {
	l.wrong.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.details) < maxDetails {
		l.details = append(l.details, detail)
	}
}

// neverSent tells whether a request certainly reached nobody.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func judge(a stacktest.Answer, err error) verdict {
	if err != nil {
		return noAnswer
	}
	if a.Status == http.StatusOK {
		return allowed
	}
	switch a.Code() {
	case "invalid_key":
		return invalidKey
	case "rate_limited":
		return rateDenied
	case "quota_exhausted":
		return quotaDenied
	case "gate_unavailable":
		return unavailable
	}
	return noAnswer
}

// makeStrangers draws well-formed keys that are nobody's, and ones that are no keys.
func makeStrangers(t *testing.T) (all []*credential) {
	t.Helper()
	nobody := &key{id: "nobody"}
	for range 100 {
		_, full, _ := reissue(t, map[string]any{})
		all = append(all, &credential{key: nobody, text: full, timeline: newTimeline(invalidKey)})
	}
	for _, text := range []string{"", "sluice_", "sluice_ab12cd34_", "x"} {
		all = append(all, &credential{key: nobody, text: text, timeline: newTimeline(invalidKey)})
	}
	return all
}
