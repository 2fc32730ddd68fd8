package meter

import (
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// peerCounts contains the counts of a source that its replica has sent.
type peerCounts struct {
	day    usage.Day
	counts map[apikey.Prefix]peerCount
}

// peerCount contains a source's totals of a key, as last sent and as stored.
type peerCount struct{ sent, stored uint64 }

func (c peerCount) beyond() uint64 {
	if c.sent <= c.stored {
		return 0
	}
	return c.sent - c.stored
}

// written returns the part of the stored total that was already counted.
func (t *peerCounts) written(prefix apikey.Prefix, stored uint64) (counted uint64) {
	if t == nil {
		return 0
	}
	c, ok := t.counts[prefix]
	if !ok {
		return 0
	}
	before := c.beyond()
	c.stored = stored
	t.counts[prefix] = c
	return before - c.beyond()
}

// drop returns the part of the sent total that was not stored.
func (t *peerCounts) drop(prefix apikey.Prefix) (counted uint64) {
	if t == nil {
		return 0
	}
	counted = t.counts[prefix].beyond()
	delete(t.counts, prefix)
	return counted
}

// ApplyPeerCount applies the total of a key that another replica has sent. source and shard name the
// document in which that replica stores it.
func (m *Meter) ApplyPeerCount(day usage.Day, source usage.CounterSource, shard int, prefix apikey.Prefix, allowed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state.Load()
	today := s.base.periods[0].first
	if s.own(source) || day < today-1 || day > today+1 {
		return
	}
	t := m.peerCounts[source]
	if t == nil {
		t = &peerCounts{day: day, counts: map[apikey.Prefix]peerCount{}}
		m.peerCounts[source] = t
	}
	if t.day != day {
		return
	}
	c, ok := t.counts[prefix]
	if !ok {
		c.stored = m.stored(day, source, shard, prefix)
	}
	before := c.beyond()
	c.sent = max(c.sent, allowed)
	t.counts[prefix] = c
	m.addOne(s.base, day, prefix, c.beyond()-before)
}

// stored must be called with mu held.
func (m *Meter) stored(day usage.Day, source usage.CounterSource, shard int, prefix apikey.Prefix) uint64 {
	for c := range m.docs[usage.CounterID(day, source, shard)].counts.All() {
		if c.Prefix == prefix {
			return c.Totals.Allowed
		}
	}
	return 0
}

// SetPeerCount sets the number of other replicas.
func (m *Meter) SetPeerCount(n int) { m.others.Store(uint64(max(n, 0))) }

// NearQuota returns the keys whose quota others may use up before their counts arrive through the
// store.
func (m *Meter) NearQuota() *slots.Set { return &m.nearQuota }

// Urgent returns a channel that receives a value when such a count must be sent immediately.
func (m *Meter) Urgent() <-chan struct{} { return m.sendNow }

// DayCounts is the current table of a process.
type DayCounts struct{ table *dayTable }

// DayCounts returns the table at now.
func (m *Meter) DayCounts(now time.Time) DayCounts {
	return DayCounts{m.state.Load().table(now.UnixNano())}
}

// Day returns the day of the table.
func (t DayCounts) Day() usage.Day { return t.table.day }

// Source returns the counter source of the table.
func (t DayCounts) Source() usage.CounterSource { return t.table.source }

// Of returns the key of a slot, its shard, and its allowed requests. ok is false if the slot has
// no counts.
func (t DayCounts) Of(slot uint32) (prefix apikey.Prefix, shard int, allowed uint64, ok bool) {
	if slot >= t.table.cells.Len() {
		return "", 0, 0, false
	}
	c := t.table.cells.At(slot)
	n := c.prefix.Load()
	return prefixOf(n), int(slot / block % usage.Shards), c.allowed.Load(), n != 0
}
