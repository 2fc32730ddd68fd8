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

const changePause = 300 * time.Millisecond

// subject is a key that is changed, with its expected state.
type subject struct {
	key                           *key
	disabled, slow, scoped, final bool

	// wasSlow: the bucket may still be in debt from the slow plan.
	wasSlow bool
}

// may returns the verdicts allowed for a valid full key.
func (s *subject) may() verdict {
	switch {
	case s.disabled, s.scoped, s.final:
		return invalidKey
	case s.slow, s.wasSlow:
		return allowed | rateDenied
	}
	return allowed
}

type changer struct {
	*load

	subjects []*subject
	limited  bool // whether the changing plan has a quota
	probes   []stacktest.Replica

	mu        sync.Mutex
	made      map[string]int
	unclear   []string        // failed calls: both states remain allowed
	took      []time.Duration // until both replicas apply it
	callTimes []time.Duration
}

func newChanger(l *load) *changer {
	c := &changer{load: l, made: map[string]int{}, probes: stacktest.Replicas(l.t, world)}
	for _, k := range l.keys.changed {
		c.subjects = append(c.subjects, &subject{key: k})
	}
	return c
}

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

func (c *changer) changeKey(s *subject, n int) {
	if s.final {
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
		next.final = true
		c.apply("revoke", s, next, func(ctx context.Context) error {
			_, err := site.Client.RevokeKey(ctx, site.Project, id)
			return err
		})
	case 1, 2:
		next.disabled = !s.disabled
		c.apply(choose(next.disabled, "disable", "enable"), s, next, update(wire.UpdateKey{Status: wire.Some(choose(next.disabled, "disabled", "active"))}))
	case 3:
		next.slow, next.wasSlow = !s.slow, true
		c.apply("move", s, next, update(wire.UpdateKey{Plan: wire.Some(choose(next.slow, c.plans.slow.ID, c.plans.free.ID))}))
	case 4:
		next.scoped = !s.scoped
		apps := []string{}
		if next.scoped {
			apps = []string{otherApp}
		}
		c.apply("change scope", s, next, update(wire.UpdateKey{Apps: wire.Some(apps)}))
	case 5:
		c.rotate(s, choose(rand.N(2) == 0, 0, time.Hour))
	}
}

func choose[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}

func (c *changer) apply(what string, s *subject, next subject, call func(context.Context) error) {
	begin := time.Now()
	var made []func(time.Time)
	for _, one := range append(slices.Clone(s.key.before), s.key.current.Load()) {
		if !one.dead {
			made = append(made, one.change(begin, next.may()))
		}
	}
	if !c.call(what, call) {
		s.final = true // the state is unknown
		return
	}
	was := s.may()
	*s = next
	if was&next.may() == 0 {
		c.awaitChange(s.key.current.Load(), next.may(), made)
	} else {
		c.confirm(made, time.Now().Add(window))
	}
}

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

// confirm ends, at the time end, the states that preceded the changes.
func (c *changer) confirm(made []func(time.Time), end time.Time) {
	for _, f := range made {
		f(end)
	}
}

// awaitChange probes both replicas until they apply a change. Then the previous state ends.
func (c *changer) awaitChange(one *credential, want verdict, made []func(time.Time)) {
	returned := time.Now()
	c.confirm(made, returned.Add(window))
	for _, r := range c.probes {
		for c.check(one, r)&want == 0 {
			if time.Since(returned) > window {
				c.recordWrong(fmt.Sprintf("%s: %s did not apply a change within %v", one.key.id, r.URL, window))
				return
			}
			pause(c.t.Context(), 5*time.Millisecond)
		}
	}
	c.confirm(made, time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, time.Since(returned))
}

// rotate issues a new secret. The previous one stays valid for the grace period.
func (c *changer) rotate(s *subject, grace time.Duration) {
	begin := time.Now()
	old := s.key.current.Load()
	var ending []*credential
	for _, one := range s.key.before { // at most two are valid
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
		s.final = true
		return
	}
	line := newTimeline(invalidKey)
	made = append(made, line.change(begin, s.may()))
	one := s.key.issue(full, line)
	replaced := append(slices.Clone(*c.replaced.Load()), old)
	c.replaced.Store(&replaced)
	if s.may() == allowed {
		c.awaitChange(one, allowed, made)
	} else {
		c.confirm(made, time.Now().Add(window))
	}
}

// changePlan adds a quota that hundreds of keys have already exceeded, or removes it.
func (c *changer) changePlan() {
	begin := time.Now()
	may := choose(c.limited, allowed, allowed|quotaDenied)
	var made []func(time.Time)
	for _, k := range c.keys.shared {
		made = append(made, k.current.Load().change(begin, may))
	}
	update := wire.UpdatePlan{Quota: wire.Some(int64(1)), QuotaPeriod: wire.Some("month")}
	if c.limited {
		update = wire.UpdatePlan{Quota: wire.Null[int64](), QuotaPeriod: wire.Null[string]()}
	}
	probe := c.keys.shared[rand.N(len(c.keys.shared))].current.Load()
	if !c.call("update plan", func(ctx context.Context) error {
		_, err := c.site.Client.UpdatePlan(ctx, c.site.Project, c.site.Env, c.plans.changing.ID, update)
		return err
	}) {
		return
	}
	c.limited = !c.limited
	if c.limited && probe.key.allowed.Load() < 2 { // the quota may not be exhausted
		c.confirm(made, time.Now().Add(window))
		return
	}
	c.awaitChange(probe, choose(c.limited, quotaDenied, allowed), made)
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
