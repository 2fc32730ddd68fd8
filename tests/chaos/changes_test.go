package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const (
	lanes     = 16 // concurrent keys
	flips     = 6  // how often each key is disabled and enabled
	laneWait  = 4 * time.Second
	laneEvery = 50 * time.Millisecond // between a key's requests to a replica
	laneRest  = 60 * time.Millisecond // from a confirmation to the next change: at least one request per replica
)

// crowd changes keys by calls that wait, and sends requests with these keys to every replica,
// before and after all replicas are replaced.
type crowd struct {
	*stacktest.Site

	waiting  *client.Client
	plan     string
	replicas []stacktest.Replica // those before and those after the replacement
	asked    atomic.Int64
	opened   atomic.Int64

	mu     sync.Mutex
	phase  string
	phases []string
	counts map[string]*count
	open   map[string]string // unconfirmed revoked keys, by the change's ID
}

type count struct{ acknowledged, denying, unknown, failed, allowed int }

// TestInForceUnderFaults checks that no replica allows a request sent after the confirmation that
// its key is rejected (promise F7). It runs before the tests that leave many keys: the emulator
// resends all of them at every change.
func TestInForceUnderFaults(t *testing.T) {
	c := newCrowd(t)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			for ctx.Err() == nil {
				c.life()
			}
		})
	}
	c.troubles()
	stop()
	all.Wait()
	c.known()
	sum := count{}
	for _, phase := range c.phases {
		n := c.counts[phase]
		t.Logf("%-32s %4d confirmed, %3d of them while a replica denied; 202: %3d, failed: %d, allowed afterwards: %d", phase, n.acknowledged, n.denying, n.unknown, n.failed, n.allowed)
		sum.acknowledged, sum.unknown = sum.acknowledged+n.acknowledged, sum.unknown+n.unknown
	}
	t.Logf("%d confirmed, 202: %d; %d requests allowed before a confirmation, %d sent after one", sum.acknowledged, sum.unknown, c.opened.Load(), c.asked.Load())
	fewest := long.Pick(100, 300)
	if sum.acknowledged < fewest || int(c.asked.Load()) < fewest || int(c.opened.Load()) < fewest {
		t.Errorf("got too few changes or requests, want at least %d of each", fewest)
	}
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{Site: stacktest.New(t, world), counts: map[string]*count{}, open: map[string]string{}}
	c.App("hello")
	info := world.Info()
	// This client does not check responses against the API description: that would take as long
	// as a change.
	plain := client.New(info.BaseURL, client.WithTransport(&http.Transport{MaxIdleConnsPerHost: lanes}))
	session, err := plain.SignIn(t.Context(), info.Admin.Username, info.Admin.Password)
	c.must(err)
	c.waiting, c.plan = plain.WithToken(session.Token).WithWait(laneWait), c.Plan(wire.CreatePlan{}).ID
	// A replica alternates between two addresses, so a first roll finds both.
	c.replicas = stacktest.Replicas(t, world)
	check.OK(t, world.Roll(t.Context()))
	c.replicas = append(c.replicas, stacktest.Replicas(t, world)...)
	return c
}

func (c *crowd) life() {
	ctx := context.WithoutCancel(c.T.Context())
	k, full, err := c.waiting.CreateKey(ctx, c.Project, c.Env, wire.CreateKey{Plan: &c.plan})
	c.record(k, err)
	if err != nil {
		return
	}
	var closed atomic.Int64 // time of the confirmed rejection in Unix nanoseconds, or 0
	asking, stop := context.WithCancel(ctx)
	defer stop()
	for _, r := range c.replicas {
		go c.ask(asking, r, string(full), &closed)
	}
	change := func(call func() (wire.Key, error), closes bool) (wire.Key, bool) {
		closed.Store(0)
		k, err := call()
		everywhere := c.record(k, err)
		if everywhere && closes {
			closed.Store(time.Now().UnixNano())
		}
		wait(c.T, laneRest)
		return k, everywhere
	}
	for range flips {
		change(func() (wire.Key, error) { return c.waiting.DisableKey(ctx, c.Project, k.ID) }, true)
		change(func() (wire.Key, error) { return c.waiting.EnableKey(ctx, c.Project, k.ID) }, false)
	}
	last, everywhere := change(func() (wire.Key, error) { return c.waiting.RevokeKey(ctx, c.Project, k.ID) }, true)
	if !everywhere && last.InForce != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[last.InForce.Change] = string(full)
	}
}

// ask sends requests with a key to a replica until ctx ends, and waits for the last response.
func (c *crowd) ask(ctx context.Context, r stacktest.Replica, key string, closed *atomic.Int64) {
	tick := time.NewTicker(laneEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		since, sent := closed.Load(), time.Now().UnixNano()
		a, err := r.Check(context.WithoutCancel(ctx), c.Project+"-"+c.Env, "hello", key)
		switch {
		case err != nil || since != closed.Load():
		case since == 0 && a.Status == http.StatusOK:
			c.opened.Add(1)
		case since != 0 && sent > since:
			c.asked.Add(1)
			if a.Status == http.StatusOK {
				c.in(func(n *count) { n.allowed++ })
				c.T.Errorf("%s allowed a request that was sent %v after the confirmed rejection of its key", r.URL, time.Duration(sent-since))
			}
		}
		<-tick.C
	}
}

// record counts the result of a change and reports whether it is in force everywhere.
func (c *crowd) record(k wire.Key, err error) bool {
	everywhere := err == nil && k.InForce != nil && k.InForce.Everywhere
	c.in(func(n *count) {
		switch {
		case err != nil || k.InForce == nil:
			n.failed++
			c.T.Logf("%s: %v", c.phase, err)
		case everywhere:
			n.acknowledged++
			if strings.Contains(fmt.Sprint(k.InForce.Replicas), "denying") {
				n.denying++
			}
		default:
			n.unknown++
		}
	})
	return everywhere
}

func (c *crowd) in(change func(*count)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.counts[c.phase])
}

func (c *crowd) during(phase string, happens func()) {
	c.mu.Lock()
	c.phase = phase
	if c.counts[phase] == nil {
		c.counts[phase] = &count{}
		c.phases = append(c.phases, phase)
	}
	c.mu.Unlock()
	happens()
}

// troubles applies faults to the replicas, one after the other.
func (c *crowd) troubles() {
	signal := func(name string, s syscall.Signal) { c.must(world.Signal(name, s)) }
	rest := long.Pick(2*time.Second, 8*time.Second)
	calm := func() { c.during("calm", func() { wait(c.T, rest) }) }
	stopped := func(phase, name string, d time.Duration) {
		c.during(phase, func() {
			signal(name, syscall.SIGSTOP)
			defer signal(name, syscall.SIGCONT)
			wait(c.T, d)
		})
	}
	calm()
	stopped("one stopped", "checker-0", 2*time.Second)
	stopped("one stopped", "checker-1", 2*time.Second)
	calm()
	for i := range 12 {
		stopped("each stopped in turn, briefly", fmt.Sprintf("checker-%d", i%2), 250*time.Millisecond)
		c.during("each stopped in turn, briefly", func() { wait(c.T, 150*time.Millisecond) })
	}
	c.during("one killed, and started again", func() {
		c.must(world.Kill("checker-1"))
		wait(c.T, time.Second)
		c.must(world.Restart(c.T.Context(), "checker-1"))
	})
	c.during("one restarted", func() { c.must(world.Restart(c.T.Context(), "checker-0")) })
	calm()
	c.during("one cut off from the store", func() {
		toStore[1].stall(c.T)
		defer toStore[1].heal(c.T)
		wait(c.T, 2*time.Second)
	})
	c.during("both replaced", func() { c.must(world.Roll(c.T.Context())) })
	stopped("one stopped beyond the ceiling", "checker-0", ceiling+4*time.Second)
	calm()
}

func (c *crowd) must(err error) {
	c.T.Helper()
	if err != nil {
		c.T.Error(err)
	}
}

// known checks that each change with a 202 response comes into force.
func (c *crowd) known() {
	c.T.Helper()
	now := stacktest.Replicas(c.T, world)
	for change, key := range c.open {
		c.Until("be in force", func() bool {
			f, err := c.Client.Change(c.T.Context(), c.Project, change)
			return err == nil && f.Everywhere
		})
		for _, r := range now {
			if a, err := r.Check(c.T.Context(), c.Project+"-"+c.Env, "hello", key); err != nil || a.Status != http.StatusUnauthorized {
				c.T.Errorf("%s: got %d, %v for a revoked key, want %d", r.URL, a.Status, err, http.StatusUnauthorized)
			}
		}
	}
	c.T.Logf("%d revocations came into force after a 202", len(c.open))
}

// TestWaitEndsWithTheFunction stops the function during a caller's wait.
func TestWaitEndsWithTheFunction(t *testing.T) {
	s := &scene{Site: stacktest.New(t, world)}
	s.signIn(t)
	s.App("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	check.OK(t, world.Signal("checker-1", syscall.SIGSTOP))
	defer func() { _ = world.Signal("checker-1", syscall.SIGCONT) }()
	response := make(chan reply)
	go func() {
		response <- s.changing(http.MethodPost, "api-keys/"+k.ID+"/revoke", map[string]any{}, 8*time.Second)
	}()
	wait(t, time.Second)
	check.OK(t, world.Signal("keys", syscall.SIGTERM))
	if r := <-response; r.status != http.StatusAccepted || r.took > 5*time.Second {
		t.Errorf("revocation with a wait during shutdown: got %v: %.300s, want %d within 5s", r, r.body, http.StatusAccepted)
	}
	s.Until("start keys again", func() bool { return s.manage(http.MethodGet, "api-keys", map[string]any{}).status == http.StatusOK })
}
