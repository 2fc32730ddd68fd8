// Package peers makes the rate that replicas allow together the plan's rate, and brings
// their counts of quotas together sooner than the store does (promises P5, P6).
//
// # The argument
//
// Each replica decides from its own buckets, without a hop. Every tenth of a second it
// tells the others how many requests it has allowed of each busy key, and each takes what
// it hears off its own bucket: it moves the key's instant forward by as much as if it had
// allowed them itself, into debt if need be. So every request that anyone allows is charged
// once in every bucket, and each bucket allows the plan's rate less what is charged: in the
// long run the sum is the plan's rate, however requests are spread. What goes beyond it at
// any moment is what the others can allow between two tellings, which is paid back next.
//
// # Busy keys
//
// Nobody speaks of a key of which no more than its rate is asked. If all together allow
// more than the rate, then at least one of n replicas allows more than an n-th of it: a key
// becomes busy where one allows half of that (package bucket), and wherever it is heard of.
// It stays busy until its bucket has been full for a while. Keys whose quota others may use
// up before they are heard through the store are busy too (package meter), and so are those
// of whose hard quota a replica holds too little: the others are asked to give some of it
// back (package lease).
//
// # Messages
//
// A message says of each key its total of the day, under the source by which the replica
// writes it to the store, and how many of these its bucket may still miss. Totals are
// absolute: each is charged once, so that a message which is lost or repeated changes
// nothing; one that is older than the last is refused. It says, too, of which hard quotas
// its sender holds too little. What is charged is bounded as
// buckets are: nobody is charged for more than another's bucket lets through.
//
// # Peers
//
// Peers are the members of package inforce: those whose canaries are in the store, each at
// the address that its canary names. They talk over mutual TLS, with the checkers'
// certificate on both sides, and from that address. Who is none is not listened to, and a
// peer that lies can only make keys slower.
//
// A peer of which nothing is heard for Silence is taken for gone: what is still charged for
// its counts is given back, so that no bucket is lower for longer than that than the
// replica's own requests and those of peers that live have made it. What it did meanwhile
// is never charged as a debt, when it is heard again or for the first time: it empties
// buckets at most. So while peers cannot reach each other, each allows the plan's rate,
// as one that is alone does.
package peers

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/lease"
	"github.com/sluicegate/sluice/functions/checker/internal/meter"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
)

const (
	// Interval is from one telling to the next.
	Interval = 100 * time.Millisecond

	// Silence is after how long a peer that is not heard is taken for gone.
	Silence = 1500 * time.Millisecond

	// linger is for how long a key is spoken of after its bucket was full again: longer
	// than others may take to hear it, so that they find theirs full too.
	linger = 3 * time.Second

	// idle is from one telling to the next when there is nothing to tell: it shows that
	// the replica lives.
	idle = 500 * time.Millisecond

	// most is of how many keys a replica speaks. Of more it has nothing to say: their rate
	// is each replica's own then.
	most = 1 << 16
)

// Config is what an exchange needs.
type Config struct {
	Replica string // this one's name
	Run     string // random, unique to this process, as in its canaries
	Buckets *bucket.Buckets
	Meter   *meter.Meter
	Leases  *lease.Book
	Find    func(apikey.Prefix) (slot uint32, s bucket.Shape, ok bool) // in the current view
	Start   time.Time                                                  // the zero of the buckets' clock
	Gone    time.Duration                                              // after how long without a canary a member is none
}

// Exchange is what a replica and its peers say to each other. No request waits for it.
type Exchange struct {
	cfg Config

	mu       sync.Mutex // guards what follows
	tick     uint64
	version  uint64              // grows with whatever is to be told
	accounts map[uint32]*account // by slot, of busy keys
	peers    map[string]*peer    // by run
	source   meter.Today         // whose totals were told last
}

// peer is another replica, for one life of it.
type peer struct {
	replica string
	address string
	run     string
	listed  int64 // when its canary was heard last
	heard   int64 // when it was heard itself; 0 never
	seq     uint64
	told    uint64 // up to which version it knows all
	sent    uint64 // messages to it
}

// New makes an exchange with nobody.
func New(cfg Config) *Exchange {
	return &Exchange{cfg: cfg, accounts: map[uint32]*account{}, peers: map[string]*peer{}, source: cfg.Meter.Today(cfg.Start)}
}

func (x *Exchange) since(now time.Time) int64 { return int64(now.Sub(x.cfg.Start)) }

// Members takes in the canaries of a batch. With reset they are all there are.
func (x *Exchange) Members(now time.Time, reset bool, departed []string, heard []store.Canary) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.since(now)
	there := map[string]bool{} // by run
	for _, c := range heard {
		there[c.Run] = true
		if c.Replica == x.cfg.Replica {
			continue
		}
		p := x.peers[c.Run]
		if p == nil {
			p = &peer{replica: c.Replica, run: c.Run}
			x.peers[c.Run] = p
		}
		p.address, p.listed = c.Address, at
	}
	for run, p := range x.peers {
		replaced := slices.ContainsFunc(heard, func(c store.Canary) bool { return c.Replica == p.replica && c.Run != run })
		if replaced || slices.Contains(departed, p.replica) || reset && !there[run] {
			x.gone(run, at)
		}
	}
	x.countPeers()
}

// gone forgets a peer. The caller holds mu.
func (x *Exchange) gone(run string, at int64) {
	x.giveBack(run, at)
	delete(x.peers, run)
}

// countPeers tells buckets, meter and leases how many others there are. The caller holds mu.
func (x *Exchange) countPeers() {
	x.cfg.Buckets.SetOthers(len(x.peers))
	x.cfg.Meter.SetOthers(len(x.peers))
	x.cfg.Leases.SetOthers(len(x.peers))
}

// Tick takes in what has been allowed since the last one, and gives up peers that are
// silent. Call it every [Interval].
func (x *Exchange) Tick(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tick++
	at := x.since(now)
	for run, p := range x.peers {
		if at-p.listed > int64(x.cfg.Gone) {
			x.gone(run, at)
			x.countPeers()
		} else if p.heard != 0 && at-p.heard > int64(Silence) {
			x.giveBack(run, at)
			p.heard = 0
		}
	}
	x.turn(x.cfg.Meter.Today(now))
	for slot := range x.cfg.Buckets.Busy().Drain() {
		x.open(slot, at)
	}
	for slot := range x.cfg.Meter.Short().Drain() {
		x.open(slot, at)
	}
	for slot := range x.cfg.Leases.Wanting().Drain() {
		if a := x.open(slot, at); a != nil {
			x.version++
			a.changed, a.wants = x.version, x.version
		}
	}
	for slot, a := range x.accounts {
		if !x.update(slot, a, at) {
			delete(x.accounts, slot)
		}
	}
}

// turn begins another day: its source counts from zero. The caller holds mu.
func (x *Exchange) turn(today meter.Today) {
	if x.source == today {
		return
	}
	x.source = today
	for _, a := range x.accounts {
		a.total, a.paid = 0, 0
	}
}

// Status is how things stand with the peers.
type Status struct {
	Peers       int // others that may allow requests
	Unreachable int // of these, those of whom nothing is heard
	Keys        int // that are spoken of
}

// Status tells how things stand.
func (x *Exchange) Status() Status {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := Status{Peers: len(x.peers), Keys: len(x.accounts)}
	for _, p := range x.peers {
		if p.heard == 0 {
			s.Unreachable++
		}
	}
	return s
}

// known gives the peer of a run that speaks from an address. The caller holds mu.
func (x *Exchange) known(run, from string) *peer {
	p := x.peers[run]
	if p == nil {
		return nil
	}
	listens, err := netip.ParseAddrPort(p.address)
	speaks, bad := netip.ParseAddr(from)
	if err != nil || bad != nil || listens.Addr().Unmap() != speaks.Unmap() {
		return nil
	}
	return p
}

// Addresses are where the peers listen, by their runs.
func (x *Exchange) Addresses() map[string]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := map[string]string{}
	for run, p := range x.peers {
		all[run] = p.address
	}
	return all
}
