// Package usagequery reads the usage of keys for reports.
//
// The usage of finalized days is in the rollups. For later days, each total is the larger of the
// rollup's total and the sum of the counters. Both never decrease, so the result is exact once the
// checkers have written their counts, regardless of the rollup's delay.
//
// Package usagequery reads the last finalized day, then the counters, then the rollups. A day that is
// finalized in between is complete in the rollup, even if its counters were already deleted.
//
// Reports of a few keys also use the checkers' memory. For each source and day, the larger of the
// total in memory and the stored total counts.
//
// For a short time, requests share the counters that were read.
package usagequery

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// Recent contains the settings of a function that reads usage.
type Recent struct {
	// Seconds is the time for which counters are reused; 0 disables it.
	Seconds int `env:"RECENT_SECONDS, default=2"`
}

// Life returns Seconds as a duration.
func (r Recent) Life() time.Duration { return time.Duration(r.Seconds) * time.Second }

// Store stores counts; *store.Store implements it.
type Store interface {
	// SettledDay returns the last finalized day, or not_found.
	SettledDay(ctx context.Context) (usage.Day, error)
	EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error
	Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error)
	IncompleteDays(ctx context.Context) ([]usage.Day, error) // finalized days that lack counts
}

// Reader reads the histories of keys.
type Reader struct {
	store    Store
	checkers *Checkers
	life     time.Duration
	recent   *Shared[days]
}

// days are the immutable counts of the days that are not finalized.
type days struct {
	at         time.Time
	first      usage.Day
	counters   []usage.Counter
	sums       map[usage.Day]usage.Sums
	incomplete []usage.Day // days that lack counts, finalized or not
}

// NewReader returns a reader.
func NewReader(st Store, checkers *Checkers, cfg Recent) *Reader {
	return &Reader{store: st, checkers: checkers, life: cfg.Life(), recent: NewShared[days]()}
}

const rollupsAtOnce = 500

// Reading is the usage of keys.
type Reading struct {
	Histories  []usage.History
	Incomplete []usage.Day
	AsOf       time.Time // time of the oldest checker response, or of the counters if there is none
}

// Read returns the usage of keys. It includes the counts in the checkers' memory for at most
// [usage.MaxMemoryKeys] keys.
func (r *Reader) Read(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time) (Reading, error) {
	held, asOf := r.checkers.held(ctx, prefixes)
	return r.read(ctx, prefixes, now, held, asOf)
}

// Each is Read for more keys than fit into memory: it calls use for each history, in the order of
// prefixes. It returns the days that lack counts.
func (r *Reader) Each(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time, use func(usage.History)) ([]usage.Day, error) {
	held, _ := r.checkers.held(ctx, prefixes)
	recent, err := r.each(ctx, prefixes, now, held, use)
	return recent.incomplete, err
}

// ReadStored is Read without the counts in the checkers' memory.
func (r *Reader) ReadStored(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time) (Reading, error) {
	return r.read(ctx, prefixes, now, nil, time.Time{})
}

func (r *Reader) read(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time, held []usage.Held, asOf time.Time) (Reading, error) {
	out := Reading{Histories: make([]usage.History, 0, len(prefixes))}
	recent, err := r.each(ctx, prefixes, now, held, func(h usage.History) { out.Histories = append(out.Histories, h) })
	out.Incomplete = recent.incomplete
	if asOf.IsZero() {
		asOf = recent.at
	}
	out.AsOf = asOf.UTC().Truncate(time.Microsecond)
	return out, err
}

// Open is the stored usage of all keys on the days that a summary does not include.
type Open struct {
	Sums       map[usage.Day]usage.Sums
	Incomplete []usage.Day // all days that lack counts
}

// Open returns the stored usage on the days after the given one, up to today.
func (r *Reader) Open(ctx context.Context, after usage.Day, now func() time.Time) (Open, error) {
	recent, err := r.recent.Read(ctx, now, r.counters)
	if err != nil {
		return Open{}, err
	}
	open := Open{Sums: map[usage.Day]usage.Sums{}, Incomplete: recent.incomplete}
	for day, sums := range recent.sums {
		if day > after {
			open.Sums[day] = sums
		}
	}
	if after+1 >= recent.first {
		return open, nil
	}
	// Finalized since the summary was written: the counters still exist.
	err = r.store.EachCounter(ctx, after+1, recent.first-1, func(c usage.Counter) error {
		if open.Sums[c.Day] == nil {
			open.Sums[c.Day] = usage.Sums{}
		}
		open.Sums[c.Day].Add(c.Counts)
		return nil
	})
	return open, err
}

// LastSeen returns each key's last day with stored requests, in the order of prefixes; 0 if there
// is none.
func (r *Reader) LastSeen(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time) ([]usage.Day, error) {
	days := make([]usage.Day, 0, len(prefixes))
	_, err := r.each(ctx, prefixes, now, nil, func(h usage.History) {
		last, _ := h.LastSeen(usage.DayOf(now()))
		days = append(days, last)
	})
	return days, err
}

// Snapshot is the stored usage of keys, with the counters of one time.
type Snapshot struct {
	reader *Reader
	recent days
}

// Snapshot reads the counters.
func (r *Reader) Snapshot(ctx context.Context, now func() time.Time) (Snapshot, error) {
	recent, err := r.recent.Read(ctx, now, r.counters)
	return Snapshot{r, recent}, err
}

// Incomplete returns the days that lack counts.
func (s Snapshot) Incomplete() []usage.Day { return s.recent.incomplete }

// Histories returns the usage of keys, in the order of prefixes.
func (s Snapshot) Histories(ctx context.Context, prefixes []apikey.Prefix) (histories []usage.History, err error) {
	err = s.each(ctx, prefixes, nil, func(h usage.History) { histories = append(histories, h) })
	return histories, err
}

func (r *Reader) each(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time, held []usage.Held, use func(usage.History)) (days, error) {
	s, err := r.Snapshot(ctx, now)
	if err != nil {
		return days{}, err
	}
	return s.recent, s.each(ctx, prefixes, s.recent.unwritten(held, now()), use)
}

func (s Snapshot) each(ctx context.Context, prefixes []apikey.Prefix, unwritten map[usage.Day]usage.Sums, use func(usage.History)) error {
	for some := range slices.Chunk(prefixes, rollupsAtOnce) {
		histories, err := s.reader.store.Rollups(ctx, some)
		if err != nil {
			return err
		}
		for i, h := range histories {
			for day, sums := range s.recent.sums {
				h = h.Merge(day, sums[some[i]])
			}
			for day, sums := range unwritten {
				h = h.Merge(day, s.recent.sums[day][some[i]].Plus(sums[some[i]]))
			}
			use(h)
		}
	}
	return nil
}

func (r *Reader) counters(ctx context.Context, now time.Time) (days, time.Duration, error) {
	today := usage.DayOf(now)
	first := usage.EarliestKept(today)
	settled, err := r.store.SettledDay(ctx)
	switch {
	case problem.Is(err, problem.NotFound):
	case err != nil:
		return days{}, 0, fmt.Errorf("read days that are not finalized: %w", err)
	default:
		first = max(first, settled+1)
	}
	read := days{at: now, first: first, sums: map[usage.Day]usage.Sums{}}
	if read.incomplete, err = r.store.IncompleteDays(ctx); err != nil {
		return days{}, 0, err
	}
	err = r.store.EachCounter(ctx, first, today, func(c usage.Counter) error {
		if read.sums[c.Day] == nil {
			read.sums[c.Day] = usage.Sums{}
		}
		if c.Damaged != nil {
			read.incomplete = append(read.incomplete, c.Day)
		}
		read.sums[c.Day].Add(c.Counts)
		read.counters = append(read.counters, c)
		return nil
	})
	if err != nil {
		return days{}, 0, fmt.Errorf("read days that are not finalized: %w", err)
	}
	slices.Sort(read.incomplete)
	read.incomplete = slices.Compact(read.incomplete)
	return read, r.life, nil
}

const week = 7

// Wire returns the JSON form of a report. incomplete may contain days outside the window.
func Wire(r usage.Report, incomplete []usage.Day) wire.UsageReport {
	out := wire.UsageReport{
		From: r.Window.From.String(), To: r.Window.To.String(),
		RetentionDays: usage.RetentionDays, Totals: WireTotals(r.Totals), Days: wireDays(r.Days),
		Incomplete: []string{},
	}
	for _, day := range incomplete {
		if day >= r.Window.From && day <= r.Window.To {
			out.Incomplete = append(out.Incomplete, day.String())
		}
	}
	return out
}

// WireTotals returns the JSON form of totals.
func WireTotals(t usage.Totals) wire.UsageTotals {
	return wire.UsageTotals{Allowed: t.Allowed, RateDenied: t.RateDenied, QuotaDenied: t.QuotaDenied}
}

func wireDays(days []usage.Dated) []wire.UsageDay {
	out := make([]wire.UsageDay, len(days))
	for i, d := range days {
		out[i] = wire.UsageDay{Date: d.Day.String(), UsageTotals: WireTotals(d.Totals)}
	}
	return out
}

// Lately returns the recent usage of a key with limits l.
func Lately(h usage.History, l plan.Limits, asOf, now time.Time) wire.KeyUsage {
	today := usage.DayOf(now)
	return wire.KeyUsage{
		AsOf:  asOf,
		Week:  wireDays(usage.NewReport(usage.LastDays(week, today), h, today).Days),
		Quota: QuotaUse(h, l, now),
	}
}

// QuotaUse returns the use of the quota of l; nil without a quota.
func QuotaUse(h usage.History, l plan.Limits, now time.Time) *wire.QuotaUse {
	if l.Quota == 0 {
		return nil
	}
	period := usage.Window{From: usage.DayOf(l.Period.Start(now)), To: usage.DayOf(now)}
	return &wire.QuotaUse{Quota: l.Quota, Period: string(l.Period), Used: h.Total(period).Allowed, ResetsAt: l.Period.End(now)}
}

// Shared caches a value. One request loads it while the others wait.
type Shared[T any] struct {
	turn chan struct{} // holds a token unless a load is in progress
	last atomic.Pointer[loaded[T]]
}

type loaded[T any] struct {
	at    time.Time
	life  time.Duration
	value T
}

// NewShared returns an empty cache.
func NewShared[T any]() *Shared[T] {
	s := &Shared[T]{turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// Load returns a value and the time for which it can be reused.
type Load[T any] func(ctx context.Context, at time.Time) (value T, life time.Duration, err error)

// Cached returns the cached value if it is valid and was loaded on the UTC day of now.
func (s *Shared[T]) Cached(now time.Time) (value T, ok bool) {
	l := s.last.Load()
	if l == nil || usage.DayOf(l.at) != usage.DayOf(now) || now.Sub(l.at) >= l.life {
		return value, false
	}
	return l.value, true
}

// Read returns the cached value, and otherwise loads it. Errors are not cached.
func (s *Shared[T]) Read(ctx context.Context, now func() time.Time, load Load[T]) (T, error) {
	asked := now()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case <-s.turn:
	}
	defer func() { s.turn <- struct{}{} }()
	if value, ok := s.Cached(asked); ok {
		return value, nil
	}
	at := now()
	value, life, err := load(ctx, at)
	if err != nil {
		return value, err
	}
	s.last.Store(&loaded[T]{at, life, value})
	return value, nil
}
