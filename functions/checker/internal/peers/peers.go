// Package peers makes all replicas together allow the plan's rate. It also exchanges the counts
// of quotas faster than the store does (promises P5, P6).
//
// # The argument
//
// Each replica decides from its own buckets. Every 0.1 s, it sends its peers the number of
// requests that it has allowed of each busy key. The peers charge these requests to their own
// buckets, so every allowed request is charged once in every bucket. In the long run, all replicas
// together allow the plan's rate, for any distribution of the requests. The excess at any time is
// at most the number of requests that the others allow between two messages.
//
// # Busy keys
//
// If n replicas together exceed a key's rate, at least one of them exceeds an equal share of it. A
// key becomes busy on a replica that allows half of an equal share, and on every replica that
// receives its count. It is also busy while others may use up its quota before their counts arrive
// through the store (package meter). If a replica lacks requests of a hard quota, the message asks
// the peers to release some (package lease).
//
// # Messages
//
// A message contains the total of each busy key on this day, and the source under which the
// sender stores it. Totals are absolute and charged once, so lost or repeated messages change
// nothing. Outdated messages are rejected. A charge never exceeds the number of requests that a
// bucket allows.
//
// # Peers
//
// The peers are the replicas with canaries in the store, at the addresses in the canaries
// (package checkers). They use mutual TLS with the checkers' certificate, and a message must
// come from its sender's address. A peer that sends false counts can only make keys slower.
//
// A peer that sends no message for [PeerTimeout] counts as unreachable. Its charges are refunded. Its
// requests of that time, and those of a new peer, are never charged as debt. Replicas that cannot
// reach each other thus each allow the plan's rate.
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
	// Interval is the time between two messages to a peer.
	Interval = 100 * time.Millisecond

	// PeerTimeout is the time without a message after which a peer counts as unreachable.
	PeerTimeout = 1500 * time.Millisecond

	// linger is the time for which a key stays busy after its bucket is full, so that its peers
	// receive the count.
	linger = 3 * time.Second

	// heartbeat is the interval of messages without counts.
	heartbeat = 500 * time.Millisecond

	// maxKeys is the maximum number of busy keys. The counts of further keys are not exchanged.
	maxKeys = 1 << 16
)

// Config contains the dependencies of an exchange.
type Config struct {
	Replica string
	Run     string
	Buckets *bucket.Buckets
	Meter   *meter.Meter
	Leases  *lease.Manager
	Find    func(apikey.Prefix) (slot uint32, s bucket.Params, ok bool)
	Start   time.Time
	Gone    time.Duration // age of a canary from which its replica is no longer a peer
}

// Exchange holds the counts that replicas exchange. No request waits for it.
type Exchange struct {
	cfg Config

	mu       sync.Mutex // guards the following fields
	tick     uint64
	version  uint64
	accounts map[uint32]*account // busy keys, by slot
	peers    map[string]*peer    // by run
	source   meter.DayCounts
}

// peer is one process of another replica.
type peer struct {
	replica   string
	address   string
	run       string
	canaryAt  int64
	messageAt int64 // time of its last message, or 0
	seq       uint64
	received  uint64 // version that the peer has received
	sent      uint64
}

// New returns an exchange without peers.
func New(cfg Config) *Exchange {
	return &Exchange{cfg: cfg, accounts: map[uint32]*account{}, peers: map[string]*peer{}, source: cfg.Meter.DayCounts(cfg.Start)}
}

func (x *Exchange) since(now time.Time) int64 { return int64(now.Sub(x.cfg.Start)) }

// Members applies a batch of canaries. If reset is true, the batch contains all canaries.
func (x *Exchange) Members(now time.Time, reset bool, departed []string, canaries []store.Canary) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.since(now)
	members := map[string]bool{} // by run
	for _, c := range canaries {
		members[c.Run] = true
		if c.Replica == x.cfg.Replica {
			continue
		}
		p := x.peers[c.Run]
		if p == nil {
			p = &peer{replica: c.Replica, run: c.Run}
			x.peers[c.Run] = p
		}
		p.address, p.canaryAt = c.Address, at
	}
	for run, p := range x.peers {
		replaced := slices.ContainsFunc(canaries, func(c store.Canary) bool { return c.Replica == p.replica && c.Run != run })
		if replaced || slices.Contains(departed, p.replica) || reset && !members[run] {
			x.removePeer(run, at)
		}
	}
	x.countPeers()
}

// removePeer must be called with mu held.
func (x *Exchange) removePeer(run string, at int64) {
	x.refund(run, at)
	delete(x.peers, run)
}

// countPeers must be called with mu held.
func (x *Exchange) countPeers() {
	x.cfg.Buckets.SetPeerCount(len(x.peers))
	x.cfg.Meter.SetPeerCount(len(x.peers))
	x.cfg.Leases.SetPeerCount(len(x.peers))
}

// Tick updates the busy keys and refunds the charges of silent peers. Call it every [Interval].
func (x *Exchange) Tick(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tick++
	at := x.since(now)
	for run, p := range x.peers {
		if at-p.canaryAt > int64(x.cfg.Gone) {
			x.removePeer(run, at)
			x.countPeers()
		} else if p.messageAt != 0 && at-p.messageAt > int64(PeerTimeout) {
			x.refund(run, at)
			p.messageAt = 0
		}
	}
	x.startDay(x.cfg.Meter.DayCounts(now))
	for slot := range x.cfg.Buckets.Busy().Drain() {
		x.accountFor(slot, at)
	}
	for slot := range x.cfg.Meter.NearQuota().Drain() {
		x.accountFor(slot, at)
	}
	for slot := range x.cfg.Leases.Shortages().Drain() {
		if a := x.accountFor(slot, at); a != nil {
			x.version++
			a.totalVersion, a.shortVersion = x.version, x.version
		}
	}
	for slot, a := range x.accounts {
		if !x.update(slot, a, at) {
			delete(x.accounts, slot)
		}
	}
}

// startDay must be called with mu held.
func (x *Exchange) startDay(today meter.DayCounts) {
	if x.source == today {
		return
	}
	x.source = today
	for _, a := range x.accounts {
		a.total, a.refilled = 0, 0
	}
}

// Status is the state of an exchange.
type Status struct {
	Peers       int
	Unreachable int // without a recent message
	Keys        int
}

// Status returns the current state.
func (x *Exchange) Status() Status {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := Status{Peers: len(x.peers), Keys: len(x.accounts)}
	for _, p := range x.peers {
		if p.messageAt == 0 {
			s.Unreachable++
		}
	}
	return s
}

// knownPeer returns the peer with a run and an address, or nil. The caller holds mu.
func (x *Exchange) knownPeer(run, from string) *peer {
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

// Addresses returns the addresses of the peers, by run.
func (x *Exchange) Addresses() map[string]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := map[string]string{}
	for run, p := range x.peers {
		all[run] = p.address
	}
	return all
}
