package session

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// slots is the size of each of the throttle's two tables.
const slots = 1 << 16

// throttle limits failed sign-ins per username, whether or not there is such a
// user, and per address. It lives in one process: with several replicas a guesser
// gets that many times the limit, which still is next to nothing against a
// password of 12 characters.
//
// A table has a fixed number of slots that names are hashed to, 512 KiB: it
// cannot be filled, and nobody can push somebody else's failures out of it. Two
// names that share a slot share its limit; the hash is seeded at random, so a
// stranger cannot aim for it.
//
// It counts by the process's monotonic clock: a machine whose time is set back must
// not lock everybody out until that time has come again.
type throttle struct {
	seed      maphash.Seed
	start     time.Time // the zero of its time
	users     limits
	addresses limits
}

func newThrottle(cfg Config, start time.Time) *throttle {
	return &throttle{
		seed:      maphash.MakeSeed(),
		start:     start,
		users:     newLimits(cfg.UserBurst, cfg.UserEvery, slots),
		addresses: newLimits(cfg.AddressBurst, cfg.AddressEvery, slots),
	}
}

// charge counts an attempt against both limits and gives the way to take it back.
// Problem: rate_limited, and then nothing is counted.
func (t *throttle) charge(now time.Time, username, address string) (refund func(), err error) {
	user, addr, at := t.slot(username), t.slot(address), now.Sub(t.start)
	if wait := t.addresses.take(addr, at); wait > 0 {
		return nil, tooMany(wait)
	}
	if wait := t.users.take(user, at); wait > 0 {
		t.addresses.giveBack(addr)
		return nil, tooMany(wait)
	}
	return func() {
		t.addresses.giveBack(addr)
		t.users.giveBack(user)
	}, nil
}

func (t *throttle) slot(name string) int {
	return int(maphash.String(t.seed, name) % slots)
}

func tooMany(wait time.Duration) error {
	return problem.New(problem.RateLimited, "Too many failed sign-ins; wait before you try again.").After(wait)
}

// limits is a table of token buckets. A bucket is one time: when it will be full
// again (the generic cell rate algorithm).
type limits struct {
	every time.Duration // until one more is let through
	burst time.Duration // that many at once, as burst × every

	mu   *sync.Mutex
	full []time.Duration // since the throttle's start
}

func newLimits(burst int, every time.Duration, size int) limits {
	return limits{every: every, burst: time.Duration(burst) * every, mu: &sync.Mutex{}, full: make([]time.Duration, size)}
}

// take takes one from a bucket, or says how long until there is one.
func (l limits) take(slot int, now time.Duration) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := max(l.full[slot], now) + l.every
	if wait := full - now - l.burst; wait > 0 {
		return wait
	}
	l.full[slot] = full
	return 0
}

// giveBack undoes one take.
func (l limits) giveBack(slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full[slot] -= l.every
}
