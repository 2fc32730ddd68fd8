package functest

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that tests set.
type Clock struct{ now atomic.Pointer[time.Time] }

// Set sets the clock.
func (c *Clock) Set(t time.Time) { c.now.Store(&t) }

// Now returns the time.
func (c *Clock) Now() time.Time { return *c.now.Load() }

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) { c.Set(c.Now().Add(d)) }
