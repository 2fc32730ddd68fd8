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
	lanes     = 16                    // keys that live and die at one time
	flips     = 6                     // how often each is disabled and enabled again
	laneWait  = 4 * time.Second       // of each change of them
	laneEvery = 50 * time.Millisecond // from one question about a key to the next, to each replica
	laneRest  = 60 * time.Millisecond // from an acknowledgement to the next change: each is asked once at least
)

// crowd is a number of keys that are made, disabled, enabled and revoked by calls that wait,
// while every replica, those that are to go and those to come, is asked about each.
type crowd struct {
	*stacktest.Site

	waiting  *client.Client
	plan     string
	replicas []stacktest.Replica // at all addresses that replicas have, one after the other
	asked    atomic.Int64        // questions that began after an acknowledgement
	opened   atomic.Int64        // questions that were answered with 200 before

	mu     sync.Mutex
	phase  string
	phases []string
	counts map[string]*count
	open   map[string]string // revoked keys of which nothing is known, by the change's name
}

// count is what came of the changes of a phase.
type count struct{ acknowledged, denying, unknown, failed, allowed int }

// TestInForceUnderFaults: of thousands of changes that wait, made while replicas are
// stopped, cut off, killed, restarted and replaced, none is acknowledged before it is so:
// of the requests that were sent to any replica after an answer which said that their key
// is refused everywhere, not one is allowed (promise F7). It runs before the tests that
// leave many keys: the emulator sends all of them to each replica at every change.
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
		t.Logf("%-32s %4d acknowledged, %3d of them since a replica denied; %3d times 202, %d failed, %d allowed after it", phase, n.acknowledged, n.denying, n.unknown, n.failed, n.allowed)
		sum.acknowledged, sum.unknown = sum.acknowledged+n.acknowledged, sum.unknown+n.unknown
	}
	t.Logf("%d acknowledged, %d times 202; %d requests allowed while they could be, %d asked after an acknowledgement", sum.acknowledged, sum.unknown, c.opened.Load(), c.asked.Load())
	fewest := long.Pick(100, 300) // on any machine
	if sum.acknowledged < fewest || int(c.asked.Load()) < fewest || int(c.opened.Load()) < fewest {
		t.Error("that is too little to say anything")
	}
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{Site: stacktest.New(t, world), counts: map[string]*count{}, open: map[string]string{}}
	c.App("hello")
	info := world.Info()
	// Its answers are not held against the API's description: that takes as long as a change.
	plain := client.New(info.BaseURL, client.WithTransport(&http.Transport{MaxIdleConnsPerHost: lanes}))
	session, err := plain.SignIn(t.Context(), info.Admin.Username, info.Admin.Password)
	c.must(err)
	c.waiting, c.plan = plain.WithToken(session.Token).Waiting(laneWait), c.Plan(wire.CreatePlan{}).ID
	// A replica that replaces another listens where the one before that did.
	c.replicas = stacktest.Replicas(t, world)
	check.OK(t, world.Roll(t.Context()))
	c.replicas = append(c.replicas, stacktest.Replicas(t, world)...)
	return c
}

// life lets one key live and die.
func (c *crowd) life() {
	ctx := context.WithoutCancel(c.T.Context())
	k, full, err := c.waiting.CreateKey(ctx, c.Project, c.Env, wire.CreateKey{Plan: &c.plan})
	c.heard(k, err)
	if err != nil {
		return
	}
	var closed atomic.Int64 // since when it is acknowledged to be refused, in Unix nanoseconds; 0 it is not
	asking, end := context.WithCancel(ctx)
	defer end()
	for _, r := range c.replicas {
		go c.ask(asking, r, string(full), &closed)
	}
	change := func(call func() (wire.Key, error), closes bool) (wire.Key, bool) {
		closed.Store(0)
		k, err := call()
		everywhere := c.heard(k, err)
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

// ask asks a replica about a key until its life is over; the last question is answered
// too, however late.
func (c *crowd) ask(ctx context.Context, r stacktest.Replica, key string, closed *atomic.Int64) {
	tick := time.NewTicker(laneEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		since, sent := closed.Load(), time.Now().UnixNano()
		a, err := r.Check(context.WithoutCancel(ctx), c.Project+"-"+c.Env, "hello", key)
		switch {
		case err != nil || since != closed.Load(): // something else is true by now
		case since == 0 && a.Status == http.StatusOK:
			c.opened.Add(1)
		case since != 0 && sent > since:
			c.asked.Add(1)
			if a.Status == http.StatusOK {
				c.in(func(n *count) { n.allowed++ })
				c.T.Errorf("%s allows a request that was sent %v after its key was said to be refused everywhere", r.URL, time.Duration(sent-since))
			}
		}
		<-tick.C
	}
}

// heard counts what a call was told, and tells whether that is that it is in force.
func (c *crowd) heard(k wire.Key, err error) bool {
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

// in counts something in the phase of now.
func (c *crowd) in(change func(*count)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.counts[c.phase])
}

// during lets a time pass, or something happen, under a name.
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

// troubles are what happens to the replicas meanwhile, one after the other.
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

// known: of the changes that were answered with 202, each comes to be in force, and then
// its key is refused.
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
				c.T.Errorf("%s answers %d, %v to a key whose revocation is in force", r.URL, a.Status, err)
			}
		}
	}
	c.T.Logf("%d revocations of which nothing was known at first came to be in force", len(c.open))
}

// TestWaitEndsWithTheFunction: who waits when the function that waits is told to stop has
// an answer at once, and so does not lose it.
func TestWaitEndsWithTheFunction(t *testing.T) {
	s := &scene{Site: stacktest.New(t, world)}
	s.signIn(t)
	s.App("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	check.OK(t, world.Signal("checker-1", syscall.SIGSTOP))
	defer func() { _ = world.Signal("checker-1", syscall.SIGCONT) }()
	answer := make(chan reply)
	go func() {
		answer <- s.changing(http.MethodPost, "api-keys/"+k.ID+"/revoke", map[string]any{}, 8*time.Second)
	}()
	wait(t, time.Second)
	check.OK(t, world.Signal("keys", syscall.SIGTERM))
	if r := <-answer; r.status != http.StatusAccepted || r.took > 5*time.Second {
		t.Errorf("a revocation that waits while the function is told to stop: %v: %.300s", r, r.body)
	}
	s.Until("start keys again", func() bool { return s.manage(http.MethodGet, "api-keys", map[string]any{}).status == http.StatusOK })
}
