package meter

import (
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// document is a counter as last received.
type document struct {
	day    usage.Day
	source usage.CounterSource
	counts usage.Packed // nil if the day is before all current periods

	damaged bool // unreadable; the earlier counts remain in the sums
}

// Receive applies a batch of counters. Batches are consistent, so replacing many sources by one
// changes no sum.
func (m *Meter) Receive(b store.Batch[usage.Counter]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state.Load()
	if b.Reset {
		there := make(map[string]bool, len(b.Changes))
		for _, c := range b.Changes {
			there[c.ID] = true
		}
		for id := range m.docs {
			if !there[id] {
				m.forget(s, id)
			}
		}
	}
	for _, c := range b.Changes {
		if c.Err != nil {
			m.damaged(c.ID)
			continue
		}
		if c.Gone {
			m.forget(s, c.ID)
			continue
		}
		m.applyCounter(s, c.ID, c.Value)
	}
	m.share.complete(b.At)
}

// Len returns the number of readable counters.
func (m *Meter) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, d := range m.docs {
		if !d.damaged {
			n++
		}
	}
	return n
}

// damaged keeps the earlier counts of an unreadable counter. The caller holds mu.
func (m *Meter) damaged(id string) {
	if d, ok := m.docs[id]; ok {
		d.damaged = true
		m.docs[id] = d
	}
}

// applyCounter must be called with mu held.
func (m *Meter) applyCounter(s *state, id string, c usage.Counter) {
	old, ok := m.docs[id]
	d := document{day: c.Day, source: c.Source}
	if c.Day >= s.base.oldest() {
		d.counts = c.Counts
	}
	m.docs[id] = d
	if ok && old.counts.Equal(d.counts) {
		return
	}
	m.add(s, old, d)
}

// forget must be called with mu held.
func (m *Meter) forget(s *state, id string) {
	old := m.docs[id]
	delete(m.docs, id)
	m.add(s, old, document{day: old.day, source: old.source})
	for c := range old.counts.All() { // compacted: another source contains its counts now
		m.addOne(s.base, old.day, c.Prefix, -m.peerCounts[old.source].drop(c.Prefix))
	}
}

func (m *Meter) add(s *state, was, is document) {
	if s.own(is.source) {
		return // requests read these counts directly
	}
	before := map[apikey.Prefix]uint64{}
	for c := range was.counts.All() {
		before[c.Prefix] = c.Totals.Allowed
	}
	sent := m.peerCounts[is.source]
	for c := range is.counts.All() {
		m.addOne(s.base, is.day, c.Prefix, c.Totals.Allowed-before[c.Prefix]-sent.written(c.Prefix, c.Totals.Allowed))
		delete(before, c.Prefix)
	}
	for prefix, allowed := range before {
		m.addOne(s.base, is.day, prefix, -allowed)
	}
}

func (m *Meter) addOne(b *base, day usage.Day, prefix apikey.Prefix, delta uint64) {
	if delta == 0 {
		return
	}
	slot, ok := m.cfg.Find(prefix)
	b.add(day, prefix, slot, ok, delta)
}

// own reports whether a source is one of the tables that requests read.
func (s *state) own(source usage.CounterSource) bool {
	for _, t := range [...]*dayTable{s.prev, s.cur, s.next} {
		if t != nil && t.source == source {
			return true
		}
	}
	return false
}

// rebuild returns the sums for the periods at now. The caller holds mu.
func (m *Meter) rebuild(s *state, now time.Time) *base {
	b := newBase(now, m.size)
	for id, d := range m.docs {
		if d.day < b.oldest() {
			d.counts = nil
			m.docs[id] = d
		}
		if s.own(d.source) {
			continue
		}
		for c := range d.counts.All() {
			m.addOne(b, d.day, c.Prefix, c.Totals.Allowed)
		}
	}
	for source, t := range m.peerCounts {
		if t.day < b.periods[0].first-1 { // stored long ago, or lost with its process
			delete(m.peerCounts, source)
			continue
		}
		for prefix, c := range t.counts {
			m.addOne(b, t.day, prefix, c.beyond())
		}
	}
	return b
}
