package meter

import (
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// told is what a replica has said itself of one of its days, ahead of the store.
type told struct {
	day    usage.Day
	counts map[apikey.Prefix]toldCount
}

// toldCount is what a source has allowed a key on its day: as its replica said last, and as
// it stands in the store. Both only grow, and the larger one is what is so.
type toldCount struct{ said, stored uint64 }

// beyond is how much was said that is not in the store yet.
func (c toldCount) beyond() uint64 {
	if c.said <= c.stored {
		return 0
	}
	return c.said - c.stored
}

// written notes what stands in the store of a key, and gives how much of that was counted
// already, as said.
func (t *told) written(prefix apikey.Prefix, stored uint64) (counted uint64) {
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

// drop forgets what was said of a key, and gives how much of it was counted.
func (t *told) drop(prefix apikey.Prefix) (counted uint64) {
	if t == nil {
		return 0
	}
	counted = t.counts[prefix].beyond()
	delete(t.counts, prefix)
	return counted
}

// Told takes in what another replica says that it has allowed a key on a day: its total,
// of the source and shard under which it writes it.
func (m *Meter) Told(day usage.Day, source usage.Source, shard int, prefix apikey.Prefix, allowed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state.Load()
	today := s.base.periods[0].first
	if s.own(source) || day < today-1 || day > today+1 {
		return
	}
	t := m.told[source]
	if t == nil {
		t = &told{day: day, counts: map[apikey.Prefix]toldCount{}}
		m.told[source] = t
	}
	if t.day != day {
		return
	}
	c, ok := t.counts[prefix]
	if !ok {
		c.stored = m.stored(day, source, shard, prefix)
	}
	before := c.beyond()
	c.said = max(c.said, allowed)
	t.counts[prefix] = c
	m.addOne(s.base, day, prefix, c.beyond()-before)
}

// stored is what a counter in the store says of a key. The caller holds mu.
func (m *Meter) stored(day usage.Day, source usage.Source, shard int, prefix apikey.Prefix) uint64 {
	for c := range m.docs[usage.CounterID(day, source, shard)].counts.All() {
		if c.Prefix == prefix {
			return c.Totals.Allowed
		}
	}
	return 0
}

// SetOthers says how many other replicas there are.
func (m *Meter) SetOthers(n int) { m.others.Store(uint64(max(n, 0))) }

// Short are the keys that must be spoken of with other replicas, a set that is taken out of
// by one goroutine: those whose quota others may use up before they are heard of.
func (m *Meter) Short() *slots.Set { return &m.short }

// Hurry gives one value when such a key's count must be told at once.
func (m *Meter) Hurry() <-chan struct{} { return m.tell }

// Today is what this process counts now: a source, and each key's total.
type Today struct{ table *dayTable }

// Today gives what is counted at now.
func (m *Meter) Today(now time.Time) Today { return Today{m.state.Load().table(now.UnixNano())} }

// Day is the day that is counted.
func (t Today) Day() usage.Day { return t.table.day }

// Source is under which name it is written.
func (t Today) Source() usage.Source { return t.table.source }

// Of gives whose key a slot is, in which shard it is written, and how many of its requests were allowed. Of a slot
// that nothing was counted of, ok is false.
func (t Today) Of(slot uint32) (prefix apikey.Prefix, shard int, allowed uint64, ok bool) {
	if slot >= t.table.cells.Len() {
		return "", 0, 0, false
	}
	c := t.table.cells.At(slot)
	n := c.prefix.Load()
	return prefixOf(n), int(slot / block % usage.Shards), c.allowed.Load(), n != 0
}
