// Package meter counts each key's requests, shares the counts with the other
// replicas, and enforces quotas (specification sections 2.3 and 8).
//
// # Counting
//
// A request is counted once, in memory, in the UTC day in which it was decided.
// Counts are monotonically growing totals. Every flush interval the totals of
// the shards that changed are written as they then are: absolute, one document a
// shard, written by this process alone. So a write that is repeated changes
// nothing, a write whose outcome is unclear is simply done again (on top of a
// known version, so that one which comes through late cannot take totals back),
// and the cost grows with the shards that changed, not with keys or requests.
// The truth about a key is the sum over sources. A process that is killed loses
// what it had not flushed; one that is stopped flushes first.
//
// # Quota
//
// What a key has used in its period is what this process has allowed it, read
// exactly, and what all other sources have, as heard through the listener: behind
// by at most a flush interval and the way through the store. A key within a tenth
// of its quota hurries the flush, so that replicas agree when it matters.
//
// # No lock on the request path
//
// Requests load one pointer and add to one cell. A table for the next day is
// made before the day begins. Everything that replaces tables or sums happens on
// the meter's own goroutine or on the listener's, under a mutex that no request
// takes.
package meter

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// Writer keeps counters.
type Writer interface {
	WriteCounter(ctx context.Context, c usage.Counter, base store.CounterVersion) (store.CounterVersion, error)
	CounterVersion(ctx context.Context, day usage.Day, source usage.Source, shard int) (store.CounterVersion, error)
}

// Config is what a meter needs.
type Config struct {
	Run      string // random, unique to this process; its sources are named after it
	Interval time.Duration
	Writer   Writer
	Find     func(apikey.Prefix) (slot uint32, ok bool) // in the current view
	Now      func() time.Time
	Log      *slog.Logger
}

// Meter counts for one process.
type Meter struct {
	cfg   Config
	state atomic.Pointer[state]
	hurry chan struct{}

	mu      sync.Mutex // guards what follows, and replacing state
	size    uint32     // slots there is room for
	tables  int        // made so far
	closing []*dayTable
	docs    map[string]document

	writes   atomic.Uint64
	failures atomic.Uint64
}

// state is what a request sees: all replaced at once.
type state struct {
	prev, cur, next *dayTable // prev and next may be nil
	base            *base
}

// New makes a meter that has counted and heard nothing.
func New(cfg Config) *Meter {
	m := &Meter{cfg: cfg, hurry: make(chan struct{}, 1), docs: map[string]document{}}
	now := cfg.Now()
	m.state.Store(&state{cur: m.newTable(usage.DayOf(now)), base: newBase(now, 0)})
	return m
}

// Admit counts a request of a key, as allowed while its quota lasts, else as
// quota-denied, and tells which. It takes no lock and allocates nothing.
func (m *Meter) Admit(slot uint32, prefix string, l view.Limits, now time.Time) bool {
	at := now.UnixNano()
	s := m.state.Load()
	t := s.table(at)
	c := t.cell(slot, prefix)
	defer t.touch(slot)
	if l.Quota == 0 {
		c.allowed.Add(1)
		return true
	}
	quota := uint64(l.Quota)
	others := s.others(t, slot, l.Period, at)
	for {
		own := c.allowed.Load()
		if others+own >= quota {
			c.quotaDenied.Add(1)
			return false
		}
		if c.allowed.CompareAndSwap(own, own+1) {
			if others+own >= quota-max(quota/10, 1) {
				m.wake()
			}
			return true
		}
	}
}

// RateDenied counts a request that its key's bucket had no token for.
func (m *Meter) RateDenied(slot uint32, prefix string, now time.Time) {
	t := m.state.Load().table(now.UnixNano())
	t.cell(slot, prefix).rateDenied.Add(1)
	t.touch(slot)
}

// wake asks for a flush soon; a request never waits for it.
func (m *Meter) wake() {
	select {
	case m.hurry <- struct{}{}:
	default:
	}
}

// table gives the table of the day that holds now; of a moment that no table
// covers (the clock was set), the one at hand.
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

// others is what a key has used in the period that holds now apart from t: what
// other sources have allowed, and this process on other days.
func (s *state) others(t *dayTable, slot uint32, p plan.Period, now int64) uint64 {
	n := s.base.used(slot, p, now)
	span := s.base.periods[place(p)]
	if now >= span.end {
		return n // the period has turned since the base was made: only today counts
	}
	for _, o := range [...]*dayTable{s.prev, s.cur, s.next} {
		if o != nil && o != t && o.day >= span.first {
			n += o.allowedIn(slot)
		}
	}
	return n
}

// Publish makes room for slots below size, gives the keys that are new what was
// heard of them before, and calls publish, after which requests may come with
// those slots. No counter is heard meanwhile, so none is missed.
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
	for prefix, slot := range fresh {
		s.base.adopt(prefix, slot)
	}
	publish()
}

// Writes is how many documents were written.
func (m *Meter) Writes() uint64 { return m.writes.Load() }

// Failures is how many writes of documents failed or had an unclear outcome.
func (m *Meter) Failures() uint64 { return m.failures.Load() }

func (m *Meter) newTable(day usage.Day) *dayTable {
	m.tables++
	return newDayTable(day, usage.Source(m.cfg.Run+"-"+strconv.Itoa(m.tables)), m.size)
}
