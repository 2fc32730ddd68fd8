package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// chunk is the number of rollups in a transaction; the limit of Firestore is 500.
const chunk = 200

func (r *run) merge(ctx context.Context, day usage.Day) error {
	sums := usage.Sums{}
	damaged := false
	err := r.store.EachCounter(ctx, day, day, func(c usage.Counter) error {
		r.result.Counters++
		if c.Damaged != nil {
			damaged = true
			r.warn(ctx, c.Damaged)
		}
		sums.Add(c.Counts)
		return nil
	})
	if err == nil {
		err = r.raise(ctx, day, sums)
	}
	if err == nil && damaged && day.Closed(r.began) {
		err = r.store.MarkIncomplete(ctx, day, usage.EarliestKept(r.today))
	}
	if !day.Closed(r.began) {
		r.open[day] = sums
	}
	if err != nil {
		return fmt.Errorf("merge %s: %w", day, err)
	}
	r.result.Days++
	return nil
}

func (r *run) raise(ctx context.Context, day usage.Day, sums usage.Sums) error {
	if day < usage.EarliestKept(r.today) {
		return nil // before the retention cutoff
	}
	m := merging{day: day, over: !r.began.Before(day.End()), earliest: usage.EarliestKept(r.today), sums: sums}
	stored := r.stored[day]
	if stored == nil {
		stored = usage.Sums{}
		r.stored[day] = stored
	}
	var due []apikey.Prefix
	for _, c := range sums.Counts() {
		if !m.enough(stored[c.Prefix], c.Totals) {
			due = append(due, c.Prefix)
		}
	}
	r.result.Rollups += len(due)
	var mu sync.Mutex // guards stored
	return parallel(ctx, r.cfg.Parallel, slices.Collect(slices.Chunk(due, chunk)), func(ctx context.Context, prefixes []apikey.Prefix) error {
		now := usage.Sums{}
		err := r.skipped(ctx, r.store.UpdateRollups(ctx, prefixes, func(p apikey.Prefix, h usage.History) usage.History {
			h = m.change(p, h)
			now[p] = h.Totals(day)
			return h
		}))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(stored, now)
		return nil
	})
}

type merging struct {
	day      usage.Day
	over     bool // the day has ended
	earliest usage.Day
	sums     usage.Sums
}

// enough reports whether a stored total needs no change. Until the end of the day, any nonzero
// total suffices, since it records that the key was seen.
func (m merging) enough(stored, sum usage.Totals) bool {
	if m.over {
		return stored.Covers(sum)
	}
	return !stored.Zero() || sum.Zero()
}

func (m merging) change(p apikey.Prefix, stored usage.History) usage.History {
	if m.enough(stored.Totals(m.day), m.sums[p]) {
		return stored
	}
	return stored.Merge(m.day, m.sums[p]).Since(m.earliest)
}

// errReopened means that a source wrote to a day after its compaction. This requires a checker
// with a clock that is wrong by more than a day. The next run compacts again.
var errReopened = errors.New("new counter after compaction of the day")

// settle compacts a closed day, merges it and marks it as finalized, in this order: counters may
// grow until they are compacted.
func (r *run) settle(ctx context.Context, day usage.Day) error {
	left, err := r.sourcesLeft(ctx, day)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		if err := r.compact(ctx, day, left); err != nil {
			return err
		}
		if left, err = r.sourcesLeft(ctx, day); err != nil {
			return err
		}
		if len(left) > 0 {
			return errReopened
		}
	}
	delete(r.stored, day) // compare with the store, not with memory
	if err := r.merge(ctx, day); err != nil {
		return err
	}
	if err := r.store.SettleDay(ctx, day); err != nil {
		return err
	}
	r.result.Settled++
	return nil
}

func (r *run) compact(ctx context.Context, day usage.Day, left map[int][]usage.CounterSource) error {
	shards := slices.Sorted(maps.Keys(left))
	return parallel(ctx, r.cfg.Parallel, shards, func(ctx context.Context, shard int) error {
		return r.store.CompactCounters(ctx, day, shard, left[shard])
	})
}

// sourcesLeft returns the sources of counters that are not compacted, by shard. It omits damaged
// counters and shards with a damaged sum, which are never compacted.
func (r *run) sourcesLeft(ctx context.Context, day usage.Day) (map[int][]usage.CounterSource, error) {
	left, noSum := map[int][]usage.CounterSource{}, map[int]bool{}
	err := r.store.EachCounter(ctx, day, day, func(c usage.Counter) error {
		r.result.Counters++
		switch {
		case c.Damaged != nil && c.Source.Compacted():
			noSum[c.Shard] = true
		case c.Damaged == nil && !c.Source.Compacted():
			left[c.Shard] = append(left[c.Shard], c.Source)
		}
		return nil
	})
	maps.DeleteFunc(left, func(shard int, _ []usage.CounterSource) bool { return noSum[shard] })
	return left, err
}

func (r *run) skipped(ctx context.Context, err error) error {
	var damaged *store.DamagedError
	if !errors.As(err, &damaged) {
		return err
	}
	for _, document := range damaged.Documents {
		r.warn(ctx, document)
	}
	return nil
}

func (r *run) warn(ctx context.Context, document error) {
	if _, known := r.warned.LoadOrStore(document.Error(), true); !known {
		r.log.ErrorContext(ctx, "damaged document skipped", "error", document)
	}
}

// parallel calls do for each item, with at most limit concurrent calls. After an error it starts no
// more calls. It returns the first error.
func parallel[T any](ctx context.Context, limit int, items []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(limit, 1))
	for _, item := range items {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(ctx, item)
		})
	}
	return g.Wait()
}
