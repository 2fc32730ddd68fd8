package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// changePause is between two changes (see the package doc on the emulator).
const changePause = 300 * time.Millisecond

// subject is a key that is changed, and its state as it should be.
type subject struct {
	key                           *key
	disabled, slow, scoped, ended bool

	// slowed: has been on the slow plan. A bucket that is further behind than an empty
	// one of the new plan is found out, and refused, by the first request.
	slowed bool
}

// may is what the key's state lets a good full key get.
func (s *subject) may() verdict {
	switch {
	case s.disabled, s.scoped, s.ended:
		return invalidKey
	case s.slow, s.slowed:
		return allowed | rateDenied
	}
	return allowed
}

// changer makes one change after another.
type changer struct {
	*load

	subjects []*subject
	limited  bool // whether the changing plan has its quota
	probes   []stacktest.Replica

	mu        sync.Mutex
	made      map[string]int
	unclear   []string        // changes whose call failed: both states stay right
	took      []time.Duration // from a call's return until both replicas act on it
	callTimes []time.Duration
}

func newChanger(l *load) *changer {
	c := &changer{load: l, made: map[string]int{}, probes: stacktest.Replicas(l.t, world)}
	for _, k := range l.keys.changed {
		c.subjects = append(c.subjects, &subject{key: k})
	}
	return c
}

// run makes changes until ctx ends.
func (c *changer) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%8 == 7 {
			c.changePlan()
		} else {
			c.changeKey(c.subjects[rand.N(len(c.subjects))], n)
		}
		pause(ctx, changePause)
	}
}

// changeKey changes something about a key.
func (c *changer) changeKey(s *subject, n int) {
	if s.ended {
		return
	}
	next := *s
	site, id := c.site, s.key.id
	update := func(u wire.UpdateKey) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := site.Client.UpdateKey(ctx, site.Project, id, u)
			return err
		}
	}
	switch n % 6 {
	case 0:
		next.ended = true
		c.apply("revoke", s, next, func(ctx context.Context) error {
			_, err := site.Client.RevokeKey(ctx, site.Project, id)
			return err
		})
	case 1, 2:
		next.disabled = !s.disabled
		c.apply(word(next.disabled, "disable", "enable"), s, next, update(wire.UpdateKey{Status: wire.Some(word(next.disabled, "disabled", "active"))}))
	case 3:
		next.slow, next.slowed = !s.slow, true
		c.apply("move to another plan", s, next, update(wire.UpdateKey{Plan: wire.Some(word(next.slow, c.plans.slow.ID, c.plans.free.ID))}))
	case 4:
		next.scoped = !s.scoped
		apps := []string{}
		if next.scoped {
			apps = []string{otherApp}
		}
		c.apply("change the scope", s, next, update(wire.UpdateKey{Apps: wire.Some(apps)}))
	case 5:
		c.rotate(s, word(rand.N(2) == 0, 0, time.Hour))
	}
}

func word[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}

// apply makes a change of a key's state and puts it into the model.
func (c *changer) apply(what string, s *subject, next subject, call func(context.Context) error) {
	begin := time.Now()
	var made []func(time.Time)
	for _, one := range append(slices.Clone(s.key.before), s.key.current.Load()) {
		if !one.dead {
			made = append(made, one.change(begin, next.may()))
		}
	}
	if !c.call(what, call) {
		s.ended = true // as far as it can be changed
		return
	}
	was := s.may()
	*s = next
	if was&next.may() == 0 {
		c.follow(s.key.current.Load(), next.may(), made)
	} else {
		c.settle(made, time.Now().Add(window))
	}
}

// call makes a call of the management API within its time.
func (c *changer) call(what string, call func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), 30*time.Second)
	defer cancel()
	begin := time.Now()
	if err := call(ctx); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unclear = append(c.unclear, fmt.Sprintf("%s: %v", what, err))
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[what]++
	c.callTimes = append(c.callTimes, time.Since(begin))
	return true
}

// settle says that changes are made: from end on the states before are wrong.
func (c *changer) settle(made []func(time.Time), end time.Time) {
	for _, f := range made {
		f(end)
	}
}

// follow asks both replicas until they act on a change; from then on they may never
// go back.
func (c *changer) follow(one *credential, want verdict, made []func(time.Time)) {
	returned := time.Now()
	c.settle(made, returned.Add(window))
	for _, r := range c.probes {
		for c.check(one, r)&want == 0 {
			if time.Since(returned) > window {
				c.tell(fmt.Sprintf("%s: a change has not come to %s within %v", one.key.id, r.URL, window))
				return
			}
			pause(c.t.Context(), 5*time.Millisecond)
		}
	}
	c.settle(made, time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, time.Since(returned))
}

// rotate gives a key another secret; the one before stays good for the grace.
func (c *changer) rotate(s *subject, grace time.Duration) {
	begin := time.Now()
	old := s.key.current.Load()
	var ending []*credential
	for _, one := range s.key.before { // at most two are alive
		if !one.dead {
			ending = append(ending, one)
		}
	}
	if grace == 0 {
		ending = append(ending, old)
	}
	var made []func(time.Time)
	for _, one := range ending {
		made, one.dead = append(made, one.change(begin, invalidKey)), true
	}
	var full string
	if !c.call("rotate", func(ctx context.Context) error {
		_, text, err := c.site.Client.RotateKey(ctx, c.site.Project, s.key.id, grace)
		full = string(text)
		return err
	}) {
		s.ended = true
		return
	}
	line := newTimeline(invalidKey)
	made = append(made, line.change(begin, s.may()))
	one := s.key.issue(full, line)
	aged := append(slices.Clone(*c.aged.Load()), old)
	c.aged.Store(&aged)
	if s.may() == allowed {
		c.follow(one, allowed, made)
	} else {
		c.settle(made, time.Now().Add(window))
	}
}

// changePlan gives the plan of hundreds of keys a quota that they have used up, or
// takes it away.
func (c *changer) changePlan() {
	begin := time.Now()
	may := word(c.limited, allowed, allowed|quotaDenied)
	var made []func(time.Time)
	for _, k := range c.keys.shared {
		made = append(made, k.current.Load().change(begin, may))
	}
	update := wire.UpdatePlan{Quota: wire.Some(int64(1)), QuotaPeriod: wire.Some("month")}
	if c.limited {
		update = wire.UpdatePlan{Quota: wire.Null[int64](), QuotaPeriod: wire.Null[string]()}
	}
	probe := c.keys.shared[rand.N(len(c.keys.shared))].current.Load()
	if !c.call("change a plan", func(ctx context.Context) error {
		_, err := c.site.Client.UpdatePlan(ctx, c.site.Project, c.site.Env, c.plans.changing.ID, update)
		return err
	}) {
		return
	}
	c.limited = !c.limited
	if c.limited && probe.key.allowed.Load() < 2 { // the quota is not used up for certain
		c.settle(made, time.Now().Add(window))
		return
	}
	c.follow(probe, word(c.limited, quotaDenied, allowed), made)
}

// pause lets time pass unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
