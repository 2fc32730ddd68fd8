package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

var errFault = errors.New("injected")

// documents is a store in memory. Each call is atomic, as a query or transaction of the real store.
type documents struct {
	mu       sync.Mutex
	counters map[string]usage.Counter
	rollups  map[apikey.Prefix]usage.History
	settled  *usage.Day
	batch    int                    // number of counters that a call compacts or deletes
	now      func() time.Time       // clock of the store
	before   func(write bool) fault // called before every call
}

type fault int

const (
	none  fault = iota
	lost        // the call has no effect and fails
	after       // the call has its effect and fails
)

func newDocuments(now func() time.Time) *documents {
	return &documents{
		counters: map[string]usage.Counter{}, rollups: map[apikey.Prefix]usage.History{}, batch: 3, now: now,
		before: func(bool) fault { return none },
	}
}

func counterID(c usage.Counter) string { return fmt.Sprintf("%s.%s.%d", c.Day, c.Source, c.Shard) }

// Now implements [Store].
func (d *documents) Now(context.Context) (now time.Time, err error) {
	err = d.call(false, func() error { now = d.now(); return nil })
	return now, err
}

func (d *documents) call(write bool, do func() error) error {
	f := d.before(write)
	if f == lost {
		return errFault
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := do()
	if f == after {
		return errFault
	}
	return err
}

func (d *documents) sorted(first, last usage.Day) []usage.Counter {
	var found []usage.Counter
	for _, id := range slices.Sorted(maps.Keys(d.counters)) {
		if c := d.counters[id]; c.Day >= first && c.Day <= last {
			found = append(found, c)
		}
	}
	return found
}

func (d *documents) OldestCounter(context.Context) (oldest usage.Day, err error) {
	err = d.call(false, func() error {
		all := d.sorted(0, 1<<30)
		if len(all) == 0 {
			return problem.FromCode(problem.NotFound)
		}
		oldest = all[0].Day
		return nil
	})
	return oldest, err
}

func (d *documents) EachCounter(_ context.Context, first, last usage.Day, use func(usage.Counter) error) error {
	return d.call(false, func() error {
		for _, c := range d.sorted(first, last) {
			if err := use(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *documents) CompactCounters(_ context.Context, day usage.Day, shard int, sources []usage.CounterSource) error {
	for some := range slices.Chunk(sources, d.batch) {
		if err := d.call(true, func() error { return d.compact(day, shard, some) }); err != nil {
			return err
		}
	}
	return nil
}

func (d *documents) compact(day usage.Day, shard int, sources []usage.CounterSource) error {
	if !day.Closed(d.now()) {
		return store.ErrNotClosed
	}
	var old []usage.Counter
	for _, source := range append(usage.CompactedSources(), sources...) {
		if c, ok := d.counters[counterID(usage.Counter{Day: day, Source: source, Shard: shard})]; ok {
			old = append(old, c)
		}
	}
	sum, err := usage.Compact(day, shard, old)
	if err != nil {
		return err
	}
	for _, c := range old {
		delete(d.counters, counterID(c))
	}
	for _, c := range sum {
		d.counters[counterID(c)] = c
	}
	return nil
}

func (d *documents) DeleteCounters(_ context.Context, before usage.Day) (n int, err error) {
	err = d.call(true, func() error {
		for _, c := range d.sorted(0, before-1) {
			if n < d.batch {
				delete(d.counters, counterID(c))
				n++
			}
		}
		return nil
	})
	return n, err
}

func (d *documents) UpdateRollups(_ context.Context, prefixes []apikey.Prefix, change func(apikey.Prefix, usage.History) usage.History) error {
	return d.call(true, func() error {
		for range 2 { // a transaction can be repeated
			for _, p := range prefixes {
				change(p, d.rollups[p])
			}
		}
		for _, p := range prefixes {
			if d.rollups[p] = change(p, d.rollups[p]); len(d.rollups[p]) == 0 {
				delete(d.rollups, p)
			}
		}
		return nil
	})
}

func (d *documents) RollupsOlder(_ context.Context, before usage.Day, limit int) (found []apikey.Prefix, err error) {
	err = d.call(false, func() error {
		for _, p := range slices.Sorted(maps.Keys(d.rollups)) {
			if d.rollups[p][0].Day < before && len(found) < limit {
				found = append(found, p)
			}
		}
		return nil
	})
	return found, err
}

func (d *documents) SettledDay(context.Context) (day usage.Day, err error) {
	err = d.call(false, func() error {
		if d.settled == nil {
			return problem.FromCode(problem.NotFound)
		}
		day = *d.settled
		return nil
	})
	return day, err
}

func (d *documents) MarkIncomplete(context.Context, usage.Day, usage.Day) error { return nil }

func (d *documents) SettleDay(_ context.Context, day usage.Day) error {
	return d.call(true, func() error {
		if !day.Closed(d.now()) {
			return store.ErrNotClosed
		}
		if d.settled == nil || *d.settled < day {
			d.settled = &day
		}
		return nil
	})
}

func (d *documents) DeleteRevokedKeys(context.Context, time.Time, int) (int, error) { return 0, nil }

func (d *documents) DeleteReceipts(context.Context, time.Time, int) (int, error) { return 0, nil }

func (d *documents) DeleteReservations(context.Context, time.Time, int) (int, error) { return 0, nil }

func (d *documents) DeleteLeases(context.Context, time.Time, int) (int, error) { return 0, nil }

func (d *documents) DeleteThresholds(context.Context, time.Time, int) (int, error) { return 0, nil }

// The model has no keys.
func (d *documents) KeyList(context.Context) (store.ListState, error) {
	return store.ListState{}, nil
}

func (d *documents) SetKeyList(context.Context, store.ListState) error { return nil }

func (d *documents) RelistKeys(context.Context, apikey.ID, int, func(apikey.Key, usage.History)) (apikey.ID, int, error) {
	return "", 0, nil
}

func (d *documents) RelistChanged(context.Context, time.Time, int) (time.Time, int, int, error) {
	return time.Time{}, 0, 0, nil
}

func (d *documents) SetSummaries(context.Context, map[string]store.Summary) error { return nil }

func (d *documents) SetUsed(context.Context, string, []apikey.Prefix, []apikey.Prefix) error {
	return nil
}

func (d *documents) Used(context.Context, string) ([]apikey.Prefix, error) { return nil, nil }

// The model has no events.
func (d *documents) AnnounceExpiries(context.Context, event.Expiry, int) (int, error) {
	return 0, nil
}

func (d *documents) AnnounceQuotas(context.Context, []store.QuotaCrossing) (int, error) {
	return 0, nil
}

func (d *documents) AnnounceGates(context.Context, bool, int) (bool, error) { return false, nil }

func (d *documents) KeysOf(context.Context, []apikey.Prefix) ([]apikey.Key, error) { return nil, nil }

func (d *documents) PlansOf(context.Context, []apikey.Key) ([]plan.Plan, error) { return nil, nil }

func (d *documents) Rollups(context.Context, []apikey.Prefix) ([]usage.History, error) {
	return nil, nil
}

func (d *documents) Members(context.Context, store.CanaryType) (checkers.List, error) {
	return checkers.List{}, nil
}

func (d *documents) DeleteStaleCanaries(context.Context, time.Time) (int, error) {
	return 0, d.call(true, func() error { return nil })
}

func (d *documents) DeleteRecords(context.Context, time.Time, int) (int, error) {
	return 0, d.call(true, func() error { return nil })
}
