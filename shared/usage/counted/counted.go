// Package counted reads what was counted of keys, for the functions that tell it.
//
// Days that are settled come from the keys' rollups alone. Of the days that are not,
// usually today and the two before it, the counters are read too, and the larger of
// rollup and counters holds, total by total: both are sums that only grow. So what is
// told is exact as soon as the checkers have flushed, and stays right however late the
// rollup is. The order of reading matters: first how far days are settled, then the
// counters, last the rollups. A day that is settled meanwhile, and whose counters may
// then be gone, is whole in the rollup that is read last.
//
// Checkers hold counts in memory until they write them. A report of few keys includes these:
// each checker returns its own totals, by source and day, and the larger one of the total in
// memory and the total in the store counts. So a request shows at once.
//
// The counters are a document for each source and shard (a shard holds a thousand
// keys), however many keys and requests there were. They are of all keys, so they are
// kept for a moment and shared by the requests of that time: a page that shows a
// hundred keys reads them once.
package counted

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// Recent is what a function that uses it reads from its environment.
type Recent struct {
	// Seconds is the time for which counters that were read serve other requests. 0 reads them
	// for every request. Counts of a checker that does not respond show within that time and
	// its flush interval, 4 s by default.
	Seconds int `env:"RECENT_SECONDS, default=2"`
}

// Life is the same as a duration.
func (r Recent) Life() time.Duration { return time.Duration(r.Seconds) * time.Second }

// Store keeps what was counted; *store.Store implements it.
type Store interface {
	// SettledDay gives the last day that is whole in the rollups, like all before
	// it. Problem: not_found before the first.
	SettledDay(ctx context.Context) (usage.Day, error)
	EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error
	Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error) // in the order of prefixes
	IncompleteDays(ctx context.Context) ([]usage.Day, error)                        // settled days that lack counts
}

// Reader reads the histories of keys.
type Reader struct {
	store    Store
	checkers *Checkers // nil calls none
	life     time.Duration
	recent   *Shared[days]
}

// days are the counts of the days that are not settled; once read, they do not change.
type days struct {
	at         time.Time // start of the reading
	first      usage.Day // the first of the days
	counters   []usage.Counter
	sums       map[usage.Day]usage.Sums
	incomplete []usage.Day // days that lack counts, settled or not
}

// NewReader makes a reader.
func NewReader(st Store, checkers *Checkers, cfg Recent) *Reader {
	return &Reader{store: st, checkers: checkers, life: cfg.Life(), recent: NewShared[days]()}
}

// rollupsAtOnce is how many rollups one call reads.
const rollupsAtOnce = 500

// Reading is the usage of keys.
type Reading struct {
	Histories  []usage.History // in the order of the keys
	Incomplete []usage.Day     // days that lack counts, because a counter is damaged
	AsOf       time.Time       // of the oldest checker that responded; without one, of the counters
}

// Read reads the usage of keys, with the counts that checkers hold in memory if there are at
// most [usage.MaxMemoryKeys] keys.
func (r *Reader) Read(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time) (Reading, error) {
	held, asOf := r.checkers.held(ctx, prefixes)
	return r.read(ctx, prefixes, now, held, asOf)
}

// ReadStored is Read without the counts that checkers hold, and calls none of them.
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
	out.AsOf = asOf.UTC().Truncate(time.Microsecond) // as stored times
	return out, err
}

// Open is the stored usage of all keys on days that a summary does not have.
type Open struct {
	Sums       map[usage.Day]usage.Sums
	Incomplete []usage.Day // days that lack counts, of any time
}

// Open returns the stored usage on the days after one, up to today.
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
	// Settled since the summary was written: the counters still exist.
	err = r.store.EachCounter(ctx, after+1, recent.first-1, func(c usage.Counter) error {
		if open.Sums[c.Day] == nil {
			open.Sums[c.Day] = usage.Sums{}
		}
		open.Sums[c.Day].Add(c.Counts)
		return nil
	})
	return open, err
}

// LastSeen returns the last day with any traffic of each key as it is stored, in the order of
// prefixes; 0 is none. It keeps no histories.
func (r *Reader) LastSeen(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time) ([]usage.Day, error) {
	days := make([]usage.Day, 0, len(prefixes))
	_, err := r.each(ctx, prefixes, now, nil, func(h usage.History) {
		last, _ := h.LastSeen(usage.DayOf(now()))
		days = append(days, last)
	})
	return days, err
}

// each hands the histories of keys to use, in the order of prefixes, with the counts that
// checkers hold.
func (r *Reader) each(ctx context.Context, prefixes []apikey.Prefix, now func() time.Time, held []usage.Held, use func(usage.History)) (days, error) {
	recent, err := r.recent.Read(ctx, now, r.counters)
	if err != nil {
		return days{}, err
	}
	more := recent.unwritten(held, now())
	for some := range slices.Chunk(prefixes, rollupsAtOnce) {
		histories, err := r.store.Rollups(ctx, some)
		if err != nil {
			return days{}, err
		}
		for i, h := range histories {
			for day, sums := range recent.sums {
				h = h.Raise(day, sums[some[i]])
			}
			for day, sums := range more {
				h = h.Raise(day, recent.sums[day][some[i]].Plus(sums[some[i]]))
			}
			use(h)
		}
	}
	return recent, nil
}

// counters reads the counters of the days that are not settled; they serve for RECENT_SECONDS.
func (r *Reader) counters(ctx context.Context, now time.Time) (days, time.Duration, error) {
	today := usage.DayOf(now)
	first := usage.EarliestKept(today)
	settled, err := r.store.SettledDay(ctx)
	switch {
	case problem.Is(err, problem.NotFound): // nothing was ever rolled up
	case err != nil:
		return days{}, 0, fmt.Errorf("read what is not settled: %w", err)
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
		return days{}, 0, fmt.Errorf("read what is not settled: %w", err)
	}
	slices.Sort(read.incomplete)
	read.incomplete = slices.Compact(read.incomplete)
	return read, r.life, nil
}

// week is how many days a list of keys shows of each.
const week = 7

// Wire returns the JSON form of a report. incomplete are days that lack counts, in the report's
// window or not.
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

// WireTotals tells totals.
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

// Lately tells what was counted of a key of a plan with limits l.
func Lately(h usage.History, l plan.Limits, asOf, now time.Time) wire.KeyUsage {
	today := usage.DayOf(now)
	return wire.KeyUsage{
		AsOf:  asOf,
		Week:  wireDays(usage.NewReport(usage.LastDays(week, today), h, today).Days),
		Quota: QuotaUse(h, l, now),
	}
}

// QuotaUse tells how far the quota of limits l is used up; nil without a quota.
func QuotaUse(h usage.History, l plan.Limits, now time.Time) *wire.QuotaUse {
	if l.Quota == 0 {
		return nil
	}
	period := usage.Window{From: usage.DayOf(l.Period.Start(now)), To: usage.DayOf(now)}
	return &wire.QuotaUse{Quota: l.Quota, Period: string(l.Period), Used: h.Total(period).Allowed, ResetsAt: l.Period.End(now)}
}

// Shared is something that is read for many requests at once: one request reads, those
// that come meanwhile wait for it, and all until it is too old share what it got.
type Shared[T any] struct {
	turn chan struct{} // holds a token while nobody reads; guards what follows

	at    time.Time // when the reading of value began; zero before the first
	life  time.Duration
	value T
}

// NewShared makes one of which nothing was read yet.
func NewShared[T any]() *Shared[T] {
	s := &Shared[T]{turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// Load reads it, and says for how long that serves.
type Load[T any] func(ctx context.Context, at time.Time) (value T, life time.Duration, err error)

// Read gives what was read no longer ago than its life, and on the same UTC day. What
// fails is not kept.
func (s *Shared[T]) Read(ctx context.Context, now func() time.Time, load Load[T]) (T, error) {
	asked := now()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case <-s.turn:
	}
	defer func() { s.turn <- struct{}{} }()
	if !s.at.IsZero() && usage.DayOf(s.at) == usage.DayOf(asked) && asked.Sub(s.at) < s.life {
		return s.value, nil
	}
	at := now()
	value, life, err := load(ctx, at)
	if err != nil {
		return value, err
	}
	s.at, s.life, s.value = at, life, value
	return value, nil
}
