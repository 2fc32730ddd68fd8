// Package meter counts each key's requests, shares the counts with other replicas, and enforces
// quotas (promises P6, P7, P8, U1, U2).
//
// # Counting
//
//  1. A request is counted once, in memory, on the UTC day of its decision.
//  2. Every flush interval, the process writes the totals of the changed shards, one document per
//     shard. Totals only increase, and no other process writes these documents.
//  3. A repeated write changes nothing, because totals are absolute. A write with an unknown
//     result is repeated on top of a known version, so a late write cannot lower the totals.
//  4. The usage of a key is the sum over all sources.
//
// The cost increases with the changed shards, not with keys or requests. A killed process loses
// the counts since its last flush.
//
// # Quotas
//
// The usage of a key is the exact count of this process, plus the counts of other sources. The
// counts of others arrive through the store's listener, late by a flush interval and the delay of
// the store. In the last tenth of a quota, counts are flushed immediately.
//
// Replicas that can reach each other also exchange totals directly (package peers): every 0.1 s if
// a quota may be used up before counts arrive through the store, and immediately in its last tenth.
// Of the two totals of a source, the larger one counts.
//
// While counts cannot be shared, share.go bounds the requests beyond a quota.
//
// # No lock on the request path
//
// A request loads one pointer and adds to one cell. Tables and sums are replaced under a mutex
// that requests do not lock. The next day's table is created before that day begins.
package meter

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/lease"
	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// Writer writes counters to the store.
type Writer interface {
	WriteCounter(ctx context.Context, c usage.Counter, base store.CounterVersion) (store.CounterVersion, error)
	CounterVersion(ctx context.Context, day usage.Day, source usage.CounterSource, shard int) (store.CounterVersion, error)
}

// Config contains the settings and dependencies of a meter.
type Config struct {
	Run      string
	Replica  string
	Interval time.Duration
	Writer   Writer

	MaxUnshared time.Duration // time for which quotas are trusted after the last sharing
	Horizon     time.Duration // see sharing

	Leases Leases

	Find func(apikey.Prefix) (slot uint32, ok bool)
	Now  func() time.Time
	Log  *slog.Logger
}

// Leases spends hard quotas (package lease).
type Leases interface {
	Spend(slot uint32, l view.Limits, now int64) lease.Result
}

// Meter counts the requests of one process.
type Meter struct {
	cfg      Config
	state    atomic.Pointer[state]
	flushNow chan struct{}
	sendNow  chan struct{}
	share    *sharing

	mu         sync.Mutex // guards the following fields, and replacing state
	size       uint32
	tables     int
	closing    []*dayTable
	docs       map[string]document
	peerCounts map[usage.CounterSource]*peerCounts

	nearQuota slots.Set // keys whose quota others may use up before their counts arrive
	others    atomic.Uint64

	writes   atomic.Uint64
	failures atomic.Uint64
}

// state is the part of a meter that requests read. It is replaced as a whole.
type state struct {
	prev, cur, next *dayTable // prev and next may be nil
	base            *base
}

// New returns a meter without counts.
func New(cfg Config) *Meter {
	m := &Meter{cfg: cfg, flushNow: make(chan struct{}, 1), sendNow: make(chan struct{}, 1), docs: map[string]document{}, peerCounts: map[usage.CounterSource]*peerCounts{}}
	now := cfg.Now()
	m.share = newSharing(cfg, now)
	m.state.Store(&state{cur: m.newTable(usage.DayOf(now)), base: newBase(now, 0)})
	return m
}

// Admission is the result of checking a key's quota.
type Admission int

// The results of [Meter.Admit].
const (
	Admitted Admission = iota
	Exhausted
	Unshared
	Unleased // as [lease.Unleased]
)

// Admit checks the key's quota and counts the request as allowed or quota-denied. It counts
// nothing if the result is Unshared or Unleased.
func (m *Meter) Admit(slot uint32, prefix string, l view.Limits, now time.Time) Admission {
	at := now.UnixNano()
	s := m.state.Load()
	t := s.table(at)
	c := t.cell(slot, prefix)
	if l.Quota == 0 {
		c.allowed.Add(1)
		t.touch(slot)
		return Admitted
	}
	quota := uint64(l.Quota)
	others := s.others(t, slot, l.Period, at)
	if l.Hard {
		return m.spend(slot, t, c, l, others, at)
	}
	reserve := m.share.reserve(l.Bucket, now)
	for {
		own := c.allowed.Load()
		switch used := others + own; {
		case used >= quota:
			c.quotaDenied.Add(1)
			t.touch(slot)
			return Exhausted
		case used+reserve >= quota:
			return Unshared
		case c.allowed.CompareAndSwap(own, own+1):
			m.noteNearQuota(slot, quota, used, l.Unsaid)
			t.touch(slot)
			return Admitted
		}
	}
}

// spend also checks the counts, because leases do not include requests that were allowed while the
// quota was soft.
func (m *Meter) spend(slot uint32, t *dayTable, c *cell, l view.Limits, others uint64, at int64) Admission {
	quota, used := uint64(l.Quota), others+c.allowed.Load()
	result := lease.Exhausted
	if used < quota {
		result = m.cfg.Leases.Spend(slot, l, at)
	}
	switch result {
	case lease.Spent:
		c.allowed.Add(1)
		m.noteNearQuota(slot, quota, used, l.Unsaid)
		t.touch(slot)
		return Admitted
	case lease.Exhausted:
		c.quotaDenied.Add(1)
		t.touch(slot)
		return Exhausted
	case lease.Unleased:
	}
	return Unleased
}

// noteNearQuota requests a flush and messages if the quota is almost used up.
func (m *Meter) noteNearQuota(slot uint32, quota, used, unsaid uint64) {
	last := used >= quota-max(quota/10, 1)
	if last {
		wake(m.flushNow)
	}
	if others := m.others.Load(); others > 0 && used+(others+1)*unsaid >= quota {
		m.nearQuota.Add(slot)
		if last {
			wake(m.sendNow)
		}
	}
}

// RateDenied counts a request that was denied because of its rate.
func (m *Meter) RateDenied(slot uint32, prefix string, now time.Time) {
	t := m.state.Load().table(now.UnixNano())
	t.cell(slot, prefix).rateDenied.Add(1)
	t.touch(slot)
}

// Used returns the requests that a key was allowed in the current period, as far as this replica
// knows. It also returns the start and the end of the period in Unix nanoseconds.
func (m *Meter) Used(slot uint32, p plan.Period, now time.Time) (used uint64, began, ends int64) {
	at := now.UnixNano()
	s := m.state.Load()
	t := s.table(at)
	used = s.others(t, slot, p, at) + t.allowedIn(slot)
	span := s.base.periods[periodIndex(p)]
	if began = span.first.Start().UnixNano(); at >= began && at < span.end {
		return used, began, span.end
	}
	return used, p.Start(now).UnixNano(), p.End(now).UnixNano()
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// table returns the table of the day at now, or the current one if the clock was set.
func (s *state) table(now int64) *dayTable {
	switch {
	case s.cur.covers(now):
	case s.next.covers(now):
		return s.next
	case s.prev.covers(now):
		return s.prev
	}
	return s.cur
}

// others returns the usage of a key in the current period except in t.
func (s *state) others(t *dayTable, slot uint32, p plan.Period, now int64) uint64 {
	n := s.base.used(slot, p, now)
	span := s.base.periods[periodIndex(p)]
	if now >= span.end {
		return n // the period has ended since the base was created
	}
	for _, o := range [...]*dayTable{s.prev, s.cur, s.next} {
		if o != nil && o != t && o.day >= span.first {
			n += o.allowedIn(slot)
		}
	}
	return n
}

// Publish makes room for the slots below size, backfills new keys, and calls publish, after
// which requests may use the slots. No counter is applied in the meantime.
func (m *Meter) Publish(size uint32, fresh map[apikey.Prefix]uint32, publish func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size = max(m.size, size)
	s := m.state.Load()
	for _, t := range [...]*dayTable{s.prev, s.cur, s.next} {
		if t != nil {
			t.cells.Grow(m.size)
		}
	}
	s.base.sums.Grow(m.size)
	m.nearQuota.Grow(m.size)
	for prefix, slot := range fresh {
		s.base.backfill(prefix, slot)
	}
	publish()
}

// Held returns the counts of a key in the tables in use.
func (m *Meter) Held(slot uint32, prefix string) []usage.Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state.Load()
	var all []usage.Held
	for _, t := range append([]*dayTable{s.prev, s.cur, s.next}, m.closing...) {
		if t == nil || slot >= t.cells.Len() {
			continue
		}
		c := t.cells.At(slot)
		h := usage.Held{
			Prefix: prefix, Source: string(t.source), Day: t.day.String(),
			Allowed: c.allowed.Load(), RateDenied: c.rateDenied.Load(), QuotaDenied: c.quotaDenied.Load(),
		}
		if h.Allowed+h.RateDenied+h.QuotaDenied > 0 {
			all = append(all, h)
		}
	}
	return all
}

// Idle reports whether a slot holds no counts, neither of this process nor of others.
func (m *Meter) Idle(slot uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state.Load()
	for _, t := range append([]*dayTable{s.prev, s.cur, s.next}, m.closing...) {
		if t != nil && slot < t.cells.Len() && t.cells.At(slot).prefix.Load() != 0 {
			return false
		}
	}
	for i := range s.base.periods {
		if s.base.sums.At(slot)[i].Load() != 0 {
			return false
		}
	}
	return true
}

// Unshared returns the time since counts were last shared.
func (m *Meter) Unshared(now time.Time) time.Duration { return m.share.age(now) }

// Writes returns the number of documents written.
func (m *Meter) Writes() uint64 { return m.writes.Load() }

// Failures returns the number of writes that failed or had an unknown result.
func (m *Meter) Failures() uint64 { return m.failures.Load() }

func (m *Meter) newTable(day usage.Day) *dayTable {
	m.tables++
	return newDayTable(day, usage.CounterSource(m.cfg.Run+"-"+strconv.Itoa(m.tables)), m.size)
}
