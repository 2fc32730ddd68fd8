package rollup

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/sluicegate/sluice/shared/usage"
)

// errReopened says that a source has written to a day after it was compacted.
// Only a checker whose clock is wrong by more than a day can do that; the next
// run compacts once more.
var errReopened = errors.New("a counter appeared after the day was compacted")

// settle compacts a closed day, takes it in for the last time and marks it. The
// order matters: a source may still grow until it is compacted.
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
	delete(r.known, day) // the last word is the store's, not this process's memory
	if err := r.takeIn(ctx, day); err != nil {
		return err
	}
	if err := r.Marks.SettleDay(ctx, day); err != nil {
		return err
	}
	r.result.Settled++
	return nil
}

// compact compacts shards, some at once.
func (r *run) compact(ctx context.Context, day usage.Day, left map[int][]usage.Source) error {
	shards := slices.Sorted(maps.Keys(left))
	return parallel(ctx, r.Config.Parallel, shards, func(ctx context.Context, shard int) error {
		return r.Counters.CompactCounters(ctx, day, shard, left[shard])
	})
}

// sourcesLeft gives, for each shard of a day that has any, the sources of the
// counters that are not compacted.
func (r *run) sourcesLeft(ctx context.Context, day usage.Day) (map[int][]usage.Source, error) {
	left := map[int][]usage.Source{}
	err := r.Counters.EachCounter(ctx, day, day, func(c usage.Counter) error {
		r.result.Counters++
		if !c.Source.Compacted() {
			left[c.Shard] = append(left[c.Shard], c.Source)
		}
		return nil
	})
	return left, err
}
