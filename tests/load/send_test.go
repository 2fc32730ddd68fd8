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

// senders is the number of concurrent requests; the machine determines the rate.
const senders = 32

const maxDetails = 20

type load struct {
	t     *testing.T
	site  *stacktest.Site
	keys  *kinds
	plans plans
	app   string // gated

	lasted time.Duration

	unknown  []*credential // never issued, or malformed
	outages  *timeline     // responses allowed because checkers restart
	replaced atomic.Pointer[[]*credential]

	sent, unsent, wrong atomic.Uint64
	byVerdict           [noResponse + 1]atomic.Uint64
	mu                  sync.Mutex
	details             []string
}

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
			l.request(c, func(ctx context.Context) (stacktest.Answer, error) {
				return l.site.Call(l.app).Header("X-API-Key", c.text).Try(ctx)
			})
			continue
		}
		l.check(c, replicas[n%len(replicas)])
	}
}

func (l *load) check(c *credential, r stacktest.Replica) verdict {
	return l.request(c, func(ctx context.Context) (stacktest.Answer, error) {
		return r.Check(ctx, l.site.Project+"-"+l.site.Env, l.app, c.text)
	})
}

// pick chooses keys with a quota more often than others, so that they exhaust it, and sometimes
// invalid keys.
func (l *load) pick() *credential {
	switch n := rand.N(100); {
	case n < 3:
		return l.keys.quotas[rand.N(len(l.keys.quotas))].current.Load()
	case n < 4:
		return l.unknown[rand.N(len(l.unknown))]
	case n < 6:
		if replaced := *l.replaced.Load(); len(replaced) > 0 {
			return replaced[rand.N(len(replaced))]
		}
	}
	return l.keys.all[rand.N(len(l.keys.all))].current.Load()
}

// request sends a request and checks its response against the model.
func (l *load) request(c *credential, send func(context.Context) (stacktest.Answer, error)) verdict {
	begin := time.Now()
	a, err := send(context.WithoutCancel(l.t.Context()))
	end := time.Now()
	v := verdictOf(a, err)
	l.sent.Add(1)
	l.byVerdict[v].Add(1)
	if may := c.may(begin, end) | l.outages.may(begin, end); may&v == 0 {
		l.recordWrong(fmt.Sprintf("%s at %s: got %v (%d %.80s %v), want %v", c.key.id, begin.Format(time.TimeOnly), v, a.Status, a.Body, err, may))
	}
	switch v {
	case allowed:
		c.key.allowed.Add(1)
	case rateDenied:
		c.key.rate.Add(1)
	case quotaDenied:
		c.key.quota.Add(1)
	case noResponse:
		if neverSent(err) {
			l.unsent.Add(1)
			pause(l.t.Context(), 20*time.Millisecond) // the replica restarts
			break
		}
		c.key.unclear.Add(1)
	case invalidKey, unavailable: // not counted
	}
	return v
}

func (l *load) recordWrong(detail string) {
	l.wrong.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.details) < maxDetails {
		l.details = append(l.details, detail)
	}
}

func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func verdictOf(a stacktest.Answer, err error) verdict {
	if err != nil {
		return noResponse
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
	return noResponse
}

func makeUnknownKeys(t *testing.T) (all []*credential) {
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
