package meter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	tableLeadTime = 5 * time.Minute
	// keepPrevious is the time after midnight for which the previous day is read from its table.
	keepPrevious = time.Hour

	parallelWrites   = 8
	minFlushInterval = 100 * time.Millisecond
	flushTimeout     = 15 * time.Second
)

var errClosed = errors.New("day closed before its last counts were written")

// Run flushes until ctx ends, and then until everything is written or flushTimeout has passed.
func (m *Meter) Run(ctx context.Context) {
	tick := time.NewTicker(m.cfg.Interval)
	defer tick.Stop()
	for {
		m.advance(m.cfg.Now())
		m.Flush(ctx)
		flushNow := m.flushNow
		if !reqctx.Sleep(ctx, minFlushInterval) {
			break
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-flushNow:
		}
	}
	m.finish(context.WithoutCancel(ctx))
}

func (m *Meter) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	for !m.Flush(ctx) {
		if !reqctx.Sleep(ctx, minFlushInterval) {
			m.cfg.Log.Error("counts lost: store unreachable until the process ended")
			return
		}
	}
}

// Flush writes every changed shard and reports whether everything is written.
func (m *Meter) Flush(ctx context.Context) bool {
	begun, writes, failures := m.share.since(m.cfg.Now()), m.writes.Load(), m.failures.Load()
	ok := true
	var committed time.Time
	for _, t := range m.openTables() {
		ok = m.flushTable(ctx, t) && ok
		committed = latest(committed, t.committed())
	}
	if m.failures.Load() == failures { // even if !ok, because of later requests
		m.share.flush(flushResult{begun: begun, committed: committed, wrote: m.writes.Load() > writes})
	}
	return ok
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (m *Meter) openTables() []*dayTable {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state.Load()
	tables := slices.Clone(m.closing)
	for _, t := range [...]*dayTable{s.prev, s.cur, s.next} {
		if t != nil {
			tables = append(tables, t)
		}
	}
	return tables
}

func (m *Meter) flushTable(ctx context.Context, t *dayTable) bool {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallelWrites)
	for i := range t.shards {
		if !t.shards[i].dirty.Load() {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			m.flushShard(ctx, t, i)
		})
	}
	wg.Wait()
	return t.clean()
}

// flushShard is called by one flush at a time.
func (m *Meter) flushShard(ctx context.Context, t *dayTable, shard int) {
	s := &t.shards[shard]
	s.dirty.Store(false) // before reading: a later count marks it again
	err := m.writeShard(ctx, t, shard)
	switch {
	case err == nil:
		m.writes.Add(1)
	case errors.Is(err, errClosed):
		m.cfg.Log.Error("counts lost", "day", t.day.String(), "shard", shard, "error", err)
	default:
		s.uncertain = true
		s.dirty.Store(true)
		m.failures.Add(1)
		if ctx.Err() == nil {
			m.cfg.Log.Warn("write counts failed, retrying", "day", t.day.String(), "shard", shard, "error", err)
		}
	}
}

func (m *Meter) writeShard(ctx context.Context, t *dayTable, shard int) error {
	s := &t.shards[shard]
	if s.uncertain {
		v, err := m.cfg.Writer.CounterVersion(ctx, t.day, t.source, shard)
		if err != nil {
			return fmt.Errorf("read version after a failed write: %w", err)
		}
		s.version, s.uncertain = v, false
	}
	if s.version == (store.CounterVersion{}) && m.cfg.Now().UnixNano() >= t.end+int64(usage.Late) {
		return errClosed
	}
	v, err := m.cfg.Writer.WriteCounter(ctx, usage.Counter{Day: t.day, Source: t.source, Shard: shard, Counts: t.pack(shard)}, s.version)
	if err != nil {
		return err
	}
	s.version = v
	return nil
}

func (m *Meter) advance(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.state.Load()
	next := *old
	m.rollDay(&next, now)
	if next.prev != nil && now.UnixNano() >= next.cur.start+int64(keepPrevious) && next.prev.clean() {
		next.prev = nil
	}
	if old.prev != nil && next.prev != old.prev && !old.prev.clean() {
		m.closing = append(m.closing, old.prev)
	}
	m.closing = slices.DeleteFunc(m.closing, (*dayTable).clean)
	today := next.base.periods[0]
	if next.prev != old.prev || next.cur != old.cur || now.UnixNano() >= today.end || now.Before(today.first.Start()) {
		next.base = m.rebuild(&next, now)
	}
	if next != *old {
		m.state.Store(&next)
	}
}

func (m *Meter) rollDay(s *state, now time.Time) {
	at := now.UnixNano()
	switch {
	case s.cur.covers(at):
	case s.next.covers(at):
		s.prev, s.cur, s.next = s.cur, s.next, nil
	case at >= s.cur.end:
		s.prev, s.cur, s.next = s.cur, m.newTable(usage.DayOf(now)), nil
	case !s.prev.covers(at): // the clock was set back by a day or more
		s.prev = m.newTable(usage.DayOf(now))
	}
	if s.next == nil && at >= s.cur.end-int64(tableLeadTime) {
		s.next = m.newTable(s.cur.day + 1)
	}
}
