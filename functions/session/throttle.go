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
	slots       = 1 << 16 // of each of the throttle's tables
	placeGroups = 1 << 11 // of places that are remembered
	placesEach  = 8       // in a group

	// placeMemory is how long an address is known after its last sign-in.
	placeMemory = 30 * 24 * time.Hour
)

// throttle limits failed attempts, whether or not there is such a user. Whoever is
// known is counted for themselves, so that nobody else's failures keep them out:
//
//   - by a device that has signed in before (see [identity.Device]), or by the session
//     that changes its own password: strict, and that is all;
//   - from an address that this user has signed in from before: strict for the two;
//   - anyone else, a stranger: strict for user and address, and besides generous for
//     the user from anywhere and for the address with any user.
//
// So strangers can use up what strangers have, which takes some hundred addresses, and
// with it keep out a person who comes from a new place with a new device, no other.
//
// It lives in one process: with several replicas a guesser gets that many times the
// limits, which still is next to nothing against a password of 12 characters; and who
// has signed in at another one is known here by device alone.
//
// A table has a fixed number of slots that names are hashed to: it cannot be filled,
// and nobody can push somebody else's failures out of it. Two names that share a slot
// share its limit; the hash is seeded at random, so a stranger cannot aim for it, and
// those who are known have a table that no stranger writes to.
//
// It counts by the process's monotonic clock: a machine whose time is set back must
// not lock everybody out until that time has come again.
type throttle struct {
	seed      maphash.Seed
	start     time.Time // the zero of its time
	known     limits    // by device or session
	pairs     limits    // by user and address
	users     limits    // of strangers
	addresses limits    // of strangers

	mu     sync.Mutex
	places [][placesEach]place // that users have signed in from, in groups by their hash
}

// place is a user and an address, by their hash.
type place struct {
	hash  uint64
	until time.Duration
}

// from says whom an attempt comes from.
type from struct {
	username string // that is tried
	address  string
	proof    string // of the device or session that it comes with, "" of a stranger
}

func newThrottle(cfg Config, start time.Time) *throttle {
	return &throttle{
		seed:      maphash.MakeSeed(),
		start:     start,
		known:     newLimits(cfg.Burst, cfg.Every, slots),
		pairs:     newLimits(cfg.Burst, cfg.Every, slots),
		users:     newLimits(cfg.UserBurst, cfg.UserEvery, slots),
		addresses: newLimits(cfg.AddressBurst, cfg.AddressEvery, slots),
		places:    make([][placesEach]place, placeGroups),
	}
}

// charge counts an attempt against its limits, and gives its lane and the way to take
// it back. Problem: rate_limited, and then nothing is counted.
func (t *throttle) charge(now time.Time, f from) (lane identity.Lane, refund func(), err error) {
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
	lane = identity.Stranger
	if !address.untouched(at) {
		lane = identity.Failing
	}
	refund, err = takeAll(at, address, pair, bucket{t.users, t.slot(f.username, "")})
	return lane, refund, err
}

// remember notes that a user has signed in from an address, in place of the one of its
// group that has been seen least of late: with one place for each hash, two addresses of a
// person could make each other forgotten.
func (t *throttle) remember(now time.Time, f from) {
	hash := t.hash(f.username, f.address)
	t.mu.Lock()
	defer t.mu.Unlock()
	group := &t.places[hash%placeGroups]
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
	group[at] = place{hash, now.Sub(t.start) + placeMemory}
}

// knows tells whether a user has signed in from an address.
func (t *throttle) knows(now time.Time, f from) bool {
	at, hash := now.Sub(t.start), t.hash(f.username, f.address)
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.places[hash%placeGroups][:], func(p place) bool { return p.hash == hash && at < p.until })
}

func (t *throttle) hash(a, b string) uint64 {
	return maphash.Comparable(t.seed, [2]string{a, b})
}

func (t *throttle) slot(a, b string) int { return int(t.hash(a, b) % slots) }

// bucket is one of a table.
type bucket struct {
	limits
	slot int
}

func (b bucket) untouched(at time.Duration) bool { return b.limits.untouched(b.slot, at) }

// takeAll takes one from each bucket, or none from any. Problem: rate_limited.
func takeAll(at time.Duration, buckets ...bucket) (refund func(), err error) {
	taken := 0
	refund = func() {
		for _, b := range buckets[:taken] {
			b.giveBack(b.slot)
		}
	}
	for _, b := range buckets {
		if wait := b.take(b.slot, at); wait > 0 {
			refund()
			return nil, problem.New(problem.RateLimited, "Too many failed sign-ins; wait before you try again.").After(wait)
		}
		taken++
	}
	return refund, nil
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

// untouched tells whether a bucket is full.
func (l limits) untouched(slot int, now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full[slot] <= now
}

// giveBack undoes one take.
func (l limits) giveBack(slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full[slot] -= l.every
}
