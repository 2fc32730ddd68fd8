package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
)

// recent reads the counters of the days that are not settled, and keeps their
// sums for a moment.
type recent struct {
	store Store
	life  time.Duration

	turn  chan struct{} // holds a token while nobody reads; guards what follows
	at    time.Time     // when the reading of sums began
	today usage.Day
	sums  days // nil before the first reading
}

// days are the sums of some days; once read, they do not change.
type days map[usage.Day]usage.Sums

func newRecent(st Store, life time.Duration) *recent {
	r := &recent{store: st, life: life, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// read gives sums that were read no longer ago than the life of a reading. One
// request reads, those that come meanwhile wait for it and share what it got.
func (r *recent) read(ctx context.Context, now func() time.Time) (days, error) {
	asked := now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.turn:
	}
	defer func() { r.turn <- struct{}{} }()
	today := usage.DayOf(asked)
	if r.sums != nil && r.today == today && asked.Sub(r.at) < r.life {
		return r.sums, nil
	}
	at := now()
	sums, err := r.load(ctx, today)
	if err != nil {
		return nil, fmt.Errorf("read what is not settled: %w", err)
	}
	r.at, r.today, r.sums = at, today, sums
	return sums, nil
}

func (r *recent) load(ctx context.Context, today usage.Day) (days, error) {
	first := usage.EarliestKept(today)
	settled, err := r.store.SettledDay(ctx)
	switch {
	case problem.Is(err, problem.NotFound): // nothing was ever rolled up
	case err != nil:
		return nil, err
	default:
		first = max(first, settled+1)
	}
	sums := days{}
	err = r.store.EachCounter(ctx, first, today, func(c usage.Counter) error {
		if sums[c.Day] == nil {
			sums[c.Day] = usage.Sums{}
		}
		sums[c.Day].Add(c.Counts)
		return nil
	})
	return sums, err
}
