package rollup

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// chunk is how many rollups one transaction changes; Firestore takes 500.
const chunk = 200

// takeIn puts what is counted of a day into the rollups.
func (r *run) takeIn(ctx context.Context, day usage.Day) error {
	sums := usage.Sums{}
	err := r.Counters.EachCounter(ctx, day, day, func(c usage.Counter) error {
		r.result.Counters++
		sums.Add(c.Counts)
		return nil
	})
	if err == nil {
		err = r.raise(ctx, day, sums)
	}
	if err != nil {
		return fmt.Errorf("take in %s: %w", day, err)
	}
	r.result.Days++
	return nil
}

// raise brings the rollups up to a day's sums.
func (r *run) raise(ctx context.Context, day usage.Day, sums usage.Sums) error {
	if day < usage.EarliestKept(r.today) {
		return nil // what was counted before the retention cutoff is kept nowhere
	}
	d := taking{day: day, over: !r.began.Before(day.End()), earliest: usage.EarliestKept(r.today), sums: sums}
	known := r.known[day]
	if known == nil {
		known = usage.Sums{}
		r.known[day] = known
	}
	var due []apikey.Prefix
	for _, c := range sums.Counts() {
		if !d.enough(known[c.Prefix], c.Totals) {
			due = append(due, c.Prefix)
		}
	}
	r.result.Rollups += len(due)
	var mu sync.Mutex // guards known
	return parallel(ctx, r.Config.Parallel, slices.Collect(slices.Chunk(due, chunk)), func(ctx context.Context, prefixes []apikey.Prefix) error {
		stored := usage.Sums{}
		err := r.Rollups.UpdateRollups(ctx, prefixes, func(p apikey.Prefix, h usage.History) usage.History {
			h = d.change(p, h)
			stored[p] = h.On(day)
			return h
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for p, t := range stored {
			known[p] = t
		}
		return nil
	})
}

// taking is what is being taken in.
type taking struct {
	day      usage.Day
	over     bool // the day has ended
	earliest usage.Day
	sums     usage.Sums
}

// enough tells whether what is stored of a key needs no change: while the day
// lasts, that the key was seen; afterwards, all of it.
func (d taking) enough(stored, sum usage.Totals) bool {
	if d.over {
		return stored.Covers(sum)
	}
	return !stored.Zero() || sum.Zero()
}

func (d taking) change(p apikey.Prefix, stored usage.History) usage.History {
	if d.enough(stored.On(d.day), d.sums[p]) {
		return stored
	}
	return stored.Raise(d.day, d.sums[p]).Since(d.earliest)
}
