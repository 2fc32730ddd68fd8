package peers

import (
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// account is what is known of one busy key.
type account struct {
	prefix  apikey.Prefix
	shard   int
	total   uint64 // allowed here today, as told
	paid    uint64 // of these, those that the bucket no longer misses
	changed uint64 // the version since which total is what it is
	wants   uint64 // the version in which more of its hard quota was wanted last
	full    int64  // since when the bucket is full; 0 while it is not
	peers   []charged
}

// charged is what a peer's counts have taken off a bucket.
type charged struct {
	run     string
	source  usage.Source
	heard   uint64 // the peer's total that is charged
	without int64  // until when the bucket would fill had the peer never spoken
}

// of gives a peer's part, which it makes if there is none.
func (a *account) of(run string) *charged {
	for i := range a.peers {
		if a.peers[i].run == run {
			return &a.peers[i]
		}
	}
	a.peers = append(a.peers, charged{run: run, without: -1})
	return &a.peers[len(a.peers)-1]
}

// charge notes that tokens were taken off the bucket, for all peers but one.
func (a *account) charge(but string, at, by int64) {
	for i := range a.peers {
		if c := &a.peers[i]; c.run != but {
			c.without = max(c.without, at) + by
		}
	}
}

// open gives a key's account, which it makes if there is room. The caller holds mu.
func (x *Exchange) open(slot uint32, at int64) *account {
	a := x.accounts[slot]
	if a != nil {
		a.full = 0
		return a
	}
	if len(x.accounts) >= most {
		return nil
	}
	x.version++
	a = &account{changed: x.version}
	if prefix, shard, total, ok := x.source.Of(slot); ok {
		a.prefix, a.shard, a.total = prefix, shard, total
		if _, s, there := x.cfg.Find(prefix); there {
			a.paid = total - min(total, s.Tokens(x.cfg.Buckets.Behind(slot, at)))
		}
	}
	x.accounts[slot] = a
	return a
}

// update takes in what was allowed here since the last time, and tells whether the key is
// still to be spoken of. The caller holds mu.
func (x *Exchange) update(slot uint32, a *account, at int64) bool {
	x.allowed(slot, a, at)
	if x.cfg.Buckets.Behind(slot, at) > 0 {
		a.full = 0
		return true
	}
	a.paid = a.total
	if a.full == 0 {
		a.full = max(at, 1)
	}
	return at-a.full < int64(linger)
}

// allowed takes in what was allowed here since the last time. The caller holds mu.
func (x *Exchange) allowed(slot uint32, a *account, at int64) {
	prefix, shard, total, ok := x.source.Of(slot)
	if !ok || total <= a.total {
		return
	}
	if _, s, there := x.cfg.Find(prefix); there {
		a.charge("", at, s.Time(total-a.total))
	}
	x.version++
	a.prefix, a.shard, a.total, a.changed = prefix, shard, total, x.version
}

// charge charges what a peer says. The caller holds mu.
func (x *Exchange) charge(p *peer, source usage.Source, w keyCount, at int64, debt bool) {
	slot, s, ok := x.cfg.Find(w.prefix)
	if !ok {
		return
	}
	a := x.open(slot, at)
	if a == nil {
		return
	}
	x.allowed(slot, a, at)
	c := a.of(p.run)
	if c.source != source {
		c.source, c.heard = source, 0
	}
	c.heard = max(c.heard, w.allowed-w.unpaid)
	if w.allowed <= c.heard {
		return
	}
	tokens := min(w.allowed-c.heard, s.Most(Silence))
	before, by := x.cfg.Buckets.Charge(slot, s, at, tokens, debt)
	if c.without < 0 {
		c.without = at + before
	}
	c.heard = w.allowed
	a.charge(p.run, at, by)
}

// giveBack takes back what is still charged for a peer's counts. The caller holds mu.
func (x *Exchange) giveBack(run string, at int64) {
	for slot, a := range x.accounts {
		for i, c := range a.peers {
			if c.run != run {
				continue
			}
			x.allowed(slot, a, at)
			by := x.cfg.Buckets.Behind(slot, at) - max(a.peers[i].without-at, 0)
			a.peers = append(a.peers[:i], a.peers[i+1:]...)
			if by > 0 {
				x.cfg.Buckets.GiveBack(slot, by)
				a.charge("", at, -by)
			}
			break
		}
	}
}
