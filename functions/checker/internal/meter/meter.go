// Package meter counts each key's requests, shares the counts with the other
// replicas, and enforces quotas (promises P6, P7, P8, U1, U2).
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
// Replicas that reach each other hear it sooner (package peers): of a key whose quota
// others could use up before they are heard through the store, each tells the others its
// day's total every tenth of a second, and in the last tenth of the quota at once. It is the very number that it writes a moment
// later, of the same source, so of the two that were heard the larger one counts, and
// nothing twice. Beyond the quota goes then what the others admit between two tellings.
//
// # A quota while counts cannot be shared
//
// Replicas that do not hear of each other would each admit all that is left. So a
// process knows two times, by its monotonic clock. Its counts are shared up to b:
// what it counted before is committed, and the listener has since told of a moment
// after that commit. And it has heard up to h: what others committed before is in
// its sums. h is the b of a flush that wrote something, or the beginning of the last
// canary that came back.
//
// While b is at most MaxUnshared ago, requests are admitted by the sums. From then on
// one is admitted only if the quota would hold although each other replica had used
// what its bucket lets through, since h and for another Horizon:
//
//	own + heard + others × (burst + rate × (now − h + Horizon)) < quota
//
// Otherwise the answer is 503, which counts nothing: whether there is quota left is
// not known. This is why the quota holds. A request that was admitted so, at t, is one
// of fewer than the quota that all replicas together can have admitted until
// t + Horizon, whatever they hear of each other: own is exact, what was committed
// before h is in the sums, and buckets bound the rest. So it is never one too many if
// its process is heard again by then; or if nobody is, since then every process has
// stopped by the same rule. What remains are the requests that were admitted by the
// sums while b grew old: each process's own in MaxUnshared, and as many of which it
// had not heard, because their process was in its own MaxUnshared when h was.
// Together, the bound is twice what the replicas admit in MaxUnshared.
//
// Three things are not in it. A replica that alone is cut off for longer than Horizon
// adds what it has admitted meanwhile; Horizon is the ceiling, after which it denies
// everything. Counts that a killed process had not flushed are admitted again. And
// others are the replicas whose canaries were heard of late, at least one: of those
// that have begun since, nothing is known.
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

	"github.com/sluicegate/sluice/functions/checker/internal/lease"
	"github.com/sluicegate/sluice/functions/checker/internal/slots"
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
	Replica  string // whose canaries are this replica's own
	Interval time.Duration
	Writer   Writer

	MaxUnshared time.Duration // how long quotas are trusted after counts were last shared
	Horizon     time.Duration // for how long a quota must hold although nobody is heard

	Leases Leases // of hard quotas

	Find func(apikey.Prefix) (slot uint32, ok bool) // in the current view
	Now  func() time.Time
	Log  *slog.Logger
}

// Leases are what this process may allow of hard quotas (package lease).
type Leases interface {
	Spend(slot uint32, l view.Limits, now int64) lease.Answer
}

// Meter counts for one process.
type Meter struct {
	cfg   Config
	state atomic.Pointer[state]
	hurry chan struct{} // to flush
	tell  chan struct{} // to tell other replicas
	share *sharing

	mu      sync.Mutex // guards what follows, and replacing state
	size    uint32     // slots there is room for
	tables  int        // made so far
	closing []*dayTable
	docs    map[string]document
	told    map[usage.Source]*told

	short  slots.Set // keys whose quota others may use up before they are heard through the store
	others atomic.Uint64

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
	m := &Meter{cfg: cfg, hurry: make(chan struct{}, 1), tell: make(chan struct{}, 1), docs: map[string]document{}, told: map[usage.Source]*told{}}
	now := cfg.Now()
	m.share = newSharing(cfg, now)
	m.state.Store(&state{cur: m.newTable(usage.DayOf(now)), base: newBase(now, 0)})
	return m
}

// Admission is what becomes of a request by its key's quota.
type Admission int

// The admissions.
const (
	Admitted  Admission = iota
	Exhausted           // the quota is used up
	Unshared            // whether there is quota left is not known: others may have used it
	Unleased            // nor is it here: others hold what is left of a hard quota
)

// Admit counts a request of a key, as allowed while its quota lasts, else as
// quota-denied, and tells which; where neither is known it counts nothing. It takes
// no lock and allocates nothing.
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
			m.running(slot, quota, used, l.Unsaid)
			t.touch(slot)
			return Admitted
		}
	}
}

// spend is Admit where the quota is hard. What is counted bounds what is leased all the same:
// the leases know nothing of what was allowed while the quota was soft.
func (m *Meter) spend(slot uint32, t *dayTable, c *cell, l view.Limits, others uint64, at int64) Admission {
	quota, used := uint64(l.Quota), others+c.allowed.Load()
	answer := lease.Gone
	if used < quota {
		answer = m.cfg.Leases.Spend(slot, l, at)
	}
	switch answer {
	case lease.Spent:
		c.allowed.Add(1)
		m.running(slot, quota, used, l.Unsaid)
		t.touch(slot)
		return Admitted
	case lease.Gone:
		c.quotaDenied.Add(1)
		t.touch(slot)
		return Exhausted
	case lease.Unleased:
	}
	return Unleased
}

// running sees to it that replicas agree about a quota when it matters.
func (m *Meter) running(slot uint32, quota, used, unsaid uint64) {
	last := used >= quota-max(quota/10, 1)
	if last {
		wake(m.hurry)
	}
	if others := m.others.Load(); others > 0 && used+(others+1)*unsaid >= quota {
		m.short.Add(slot)
		if last {
			wake(m.tell)
		}
	}
}

// RateDenied counts a request that its key's bucket had no token for.
func (m *Meter) RateDenied(slot uint32, prefix string, now time.Time) {
	t := m.state.Load().table(now.UnixNano())
	t.cell(slot, prefix).rateDenied.Add(1)
	t.touch(slot)
}

// Used is how many requests a key has been allowed in the period that holds now, as far as
// is known here: what others allowed since they last said so is not in it. It tells when
// the period began and when it ends, too, in Unix nanoseconds.
func (m *Meter) Used(slot uint32, p plan.Period, now time.Time) (used uint64, began, ends int64) {
	at := now.UnixNano()
	s := m.state.Load()
	t := s.table(at)
	used = s.others(t, slot, p, at) + t.allowedIn(slot)
	span := s.base.periods[place(p)]
	if began = span.first.Start().UnixNano(); at >= began && at < span.end {
		return used, began, span.end
	}
	return used, p.Start(now).UnixNano(), p.End(now).UnixNano()
}

// wake asks for something soon; a request never waits for it.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// table gives the table of the day that holds now; of a time that no table
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
	m.short.Grow(m.size)
	for prefix, slot := range fresh {
		s.base.adopt(prefix, slot)
	}
	publish()
}

// Held returns the counts of a key in the tables of this process that are in use.
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

// Idle reports whether a slot holds no counts: neither of this process, in a table that is
// still in use, nor of others.
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

// Unshared is for how long counts have not been shared, up to a flush interval and
// the way through the store when all is well.
func (m *Meter) Unshared(now time.Time) time.Duration { return m.share.age(now) }

// Writes is how many documents were written.
func (m *Meter) Writes() uint64 { return m.writes.Load() }

// Failures is how many writes of documents failed or had an unclear outcome.
func (m *Meter) Failures() uint64 { return m.failures.Load() }

func (m *Meter) newTable(day usage.Day) *dayTable {
	m.tables++
	return newDayTable(day, usage.Source(m.cfg.Run+"-"+strconv.Itoa(m.tables)), m.size)
}
