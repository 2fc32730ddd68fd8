package session

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	slots             = 1 << 16 // per table
	addressGroups     = 1 << 11 // of known addresses
	addressesPerGroup = 8

	// addressMemory is the time for which an address is known after a sign-in.
	addressMemory = 30 * 24 * time.Hour
)

// throttle limits failed attempts, whether or not the user exists:
//
//   - A known device ([identity.Device]) or session has a strict limit.
//   - A known address of the user has a strict limit for this user and address.
//   - Any other client also has that limit, and generous limits for the user and for the address.
//
// Unknown clients can therefore block a user only on a new device with a new address. Limits and
// known addresses belong to one process.
//
// Names are hashed to a fixed number of slots with a random seed, so attackers can neither fill
// the tables nor choose a slot. Times come from the monotonic clock: setting the clock back blocks
// no one.
type throttle struct {
	seed      maphash.Seed
	start     time.Time
	known     limits // by device or session
	pairs     limits // by user and address
	users     limits // by user, for unknown clients
	addresses limits // by address, for unknown clients

	mu     sync.Mutex
	places [][addressesPerGroup]userAddress // known addresses, grouped by hash
}

type userAddress struct {
	hash  uint64
	until time.Duration
}

type attempt struct {
	username string
	address  string
	proof    string // ID of a known device or session, or ""
}

func newThrottle(cfg Config, start time.Time) *throttle {
	return &throttle{
		seed:      maphash.MakeSeed(),
		start:     start,
		known:     newLimits(cfg.Burst, cfg.Every, slots),
		pairs:     newLimits(cfg.Burst, cfg.Every, slots),
		users:     newLimits(cfg.UserBurst, cfg.UserEvery, slots),
		addresses: newLimits(cfg.AddressBurst, cfg.AddressEvery, slots),
		places:    make([][addressesPerGroup]userAddress, addressGroups),
	}
}

// charge counts an attempt, and returns its lane and a function that undoes it. If a limit is
// reached, it counts nothing and returns a rate_limited problem.
func (t *throttle) charge(now time.Time, f attempt) (lane identity.Lane, refund func(), err error) {
	at := now.Sub(t.start)
	pair := bucket{t.pairs, t.slot(f.username, f.address)}
	switch {
	case f.proof != "":
		refund, err = takeAll(at, bucket{t.known, t.slot(f.proof, "")})
		return identity.Known, refund, err
	case t.knows(now, f):
		refund, err = takeAll(at, pair)
		return identity.Known, refund, err
	}
	address := bucket{t.addresses, t.slot(f.address, "")}
	lane = identity.Unknown
	if !address.isFull(at) {
		lane = identity.Failing
	}
	refund, err = takeAll(at, address, pair, bucket{t.users, t.slot(f.username, "")})
	return lane, refund, err
}

// remember stores an address of a user. It replaces the least recently used address of its group.
func (t *throttle) remember(now time.Time, f attempt) {
	hash := t.hash(f.username, f.address)
	t.mu.Lock()
	defer t.mu.Unlock()
	group := &t.places[hash%addressGroups]
	at := 0
	for i, p := range group {
		if p.hash == hash {
			at = i
			break
		}
		if p.until < group[at].until {
			at = i
		}
	}
	group[at] = userAddress{hash, now.Sub(t.start) + addressMemory}
}

func (t *throttle) knows(now time.Time, f attempt) bool {
	at, hash := now.Sub(t.start), t.hash(f.username, f.address)
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.places[hash%addressGroups][:], func(p userAddress) bool { return p.hash == hash && at < p.until })
}

func (t *throttle) hash(a, b string) uint64 {
	return maphash.Comparable(t.seed, [2]string{a, b})
}

func (t *throttle) slot(a, b string) int { return int(t.hash(a, b) % slots) }

type bucket struct {
	limits
	slot int
}

func (b bucket) isFull(at time.Duration) bool { return b.limits.isFull(b.slot, at) }

func takeAll(at time.Duration, buckets ...bucket) (refund func(), err error) {
	taken := 0
	refund = func() {
		for _, b := range buckets[:taken] {
			b.undo(b.slot)
		}
	}
	for _, b := range buckets {
		if wait := b.take(b.slot, at); wait > 0 {
			refund()
			return nil, problem.New(problem.RateLimited, "Too many failed sign-ins. Retry after the time in Retry-After.").WithRetryAfter(wait)
		}
		taken++
	}
	return refund, nil
}

// limits is a table of token buckets (generic cell rate algorithm). A bucket is the time at which
// it will be full again.
type limits struct {
	every time.Duration // interval between tokens
	burst time.Duration // burst × every

	mu   *sync.Mutex
	full []time.Duration // since the throttle's start
}

func newLimits(burst int, every time.Duration, size int) limits {
	return limits{every: every, burst: time.Duration(burst) * every, mu: &sync.Mutex{}, full: make([]time.Duration, size)}
}

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

func (l limits) isFull(slot int, now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full[slot] <= now
}

func (l limits) undo(slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full[slot] -= l.every
}
