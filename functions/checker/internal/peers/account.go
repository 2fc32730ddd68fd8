package peers

import (
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

type account struct {
	prefix       apikey.Prefix
	shard        int
	total        uint64
	refilled     uint64 // part of total that the bucket has refilled
	totalVersion uint64
	shortVersion uint64
	fullSince    int64
	peers        []peerCharge
}

type peerCharge struct {
	run         string
	source      usage.CounterSource
	total       uint64 // charged part of the peer's total
	fullWithout int64  // time at which the bucket would be full without this peer
}

func (a *account) of(run string) *peerCharge {
	for i := range a.peers {
		if a.peers[i].run == run {
			return &a.peers[i]
		}
	}
	a.peers = append(a.peers, peerCharge{run: run, fullWithout: -1})
	return &a.peers[len(a.peers)-1]
}

// charge adds to the charges of all peers except one.
func (a *account) charge(except string, at, by int64) {
	for i := range a.peers {
		if c := &a.peers[i]; c.run != except {
			c.fullWithout = max(c.fullWithout, at) + by
		}
	}
}

// accountFor returns nil if there are too many busy keys. The caller holds mu.
func (x *Exchange) accountFor(slot uint32, at int64) *account {
	a := x.accounts[slot]
	if a != nil {
		a.fullSince = 0
		return a
	}
	if len(x.accounts) >= maxKeys {
		return nil
	}
	x.version++
	a = &account{totalVersion: x.version}
	if prefix, shard, total, ok := x.source.Of(slot); ok {
		a.prefix, a.shard, a.total = prefix, shard, total
		if _, s, there := x.cfg.Find(prefix); there {
			a.refilled = total - min(total, s.Tokens(x.cfg.Buckets.Deficit(slot, at)))
		}
	}
	x.accounts[slot] = a
	return a
}

// update reports whether the key is still busy. The caller holds mu.
func (x *Exchange) update(slot uint32, a *account, at int64) bool {
	x.countAllowed(slot, a, at)
	if x.cfg.Buckets.Deficit(slot, at) > 0 {
		a.fullSince = 0
		return true
	}
	a.refilled = a.total
	if a.fullSince == 0 {
		a.fullSince = max(at, 1)
	}
	return at-a.fullSince < int64(linger)
}

// countAllowed must be called with mu held.
func (x *Exchange) countAllowed(slot uint32, a *account, at int64) {
	prefix, shard, total, ok := x.source.Of(slot)
	if !ok || total <= a.total {
		return
	}
	if _, s, there := x.cfg.Find(prefix); there {
		a.charge("", at, s.Time(total-a.total))
	}
	x.version++
	a.prefix, a.shard, a.total, a.totalVersion = prefix, shard, total, x.version
}

// charge must be called with mu held.
func (x *Exchange) charge(p *peer, source usage.CounterSource, w keyCount, at int64, debt bool) {
	slot, s, ok := x.cfg.Find(w.prefix)
	if !ok {
		return
	}
	a := x.accountFor(slot, at)
	if a == nil {
		return
	}
	x.countAllowed(slot, a, at)
	c := a.of(p.run)
	if c.source != source {
		c.source, c.total = source, 0
	}
	c.total = max(c.total, w.allowed-w.unrefilled)
	if w.allowed <= c.total {
		return
	}
	tokens := min(w.allowed-c.total, s.MaxWithin(PeerTimeout))
	before, by := x.cfg.Buckets.Charge(slot, s, at, tokens, debt)
	if c.fullWithout < 0 {
		c.fullWithout = at + before
	}
	c.total = w.allowed
	a.charge(p.run, at, by)
}

// refund must be called with mu held.
func (x *Exchange) refund(run string, at int64) {
	for slot, a := range x.accounts {
		for i, c := range a.peers {
			if c.run != run {
				continue
			}
			x.countAllowed(slot, a, at)
			by := x.cfg.Buckets.Deficit(slot, at) - max(a.peers[i].fullWithout-at, 0)
			a.peers = append(a.peers[:i], a.peers[i+1:]...)
			if by > 0 {
				x.cfg.Buckets.Refund(slot, by)
				a.charge("", at, -by)
			}
			break
		}
	}
}
