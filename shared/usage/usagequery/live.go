package usagequery

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	maxMemory = 1 << 20
	patience  = time.Second
)

// Checkers queries the checkers for their counts in memory.
type Checkers struct {
	Client  *checkers.Client
	Members func(ctx context.Context, t store.CanaryType) (checkers.List, error)
	Log     *slog.Logger

	Patience time.Duration // timeout; 0 for 1 s
}

// held returns the counts in memory of all checkers that respond, and the time of the oldest
// response. Other checkers write their counts within seconds.
func (c *Checkers) held(ctx context.Context, prefixes []apikey.Prefix) (all []usage.Held, asOf time.Time) {
	if c == nil || c.Client.CheckerCAFile == "" || len(prefixes) == 0 || len(prefixes) > usage.MaxMemoryKeys {
		return nil, time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Patience, patience))
	defer cancel()
	list, err := c.Members(ctx, store.CanaryKeys)
	if err != nil {
		c.Log.WarnContext(ctx, "list checkers failed", "error", err)
		return nil, time.Time{}
	}
	q := checkers.Query{RequestID: "usage", At: list.Read, Namespaces: []string{}}
	for _, p := range prefixes {
		q.Prefixes = append(q.Prefixes, string(p))
	}
	var mu sync.Mutex // guards all and asOf
	var calls sync.WaitGroup
	for _, m := range list.Members {
		if !m.Has(checkers.UsageInMemory) {
			continue
		}
		calls.Go(func() {
			var a usage.Memory
			if err := c.Client.Query(ctx, m, usage.MemoryPath, q, maxMemory, &a); err != nil || a.Run != m.Run {
				c.Log.DebugContext(ctx, "call checker for usage failed", "replica", m.Replica, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a.Counts...)
			if asOf.IsZero() || a.At.Before(asOf) {
				asOf = a.At
			}
		})
	}
	calls.Wait()
	return all, asOf
}

type source struct {
	day  usage.Day
	name usage.CounterSource
}

// unwritten returns the part of held that is not in the counters. Both are totals of the same
// source, so nothing counts twice.
func (d days) unwritten(held []usage.Held, now time.Time) map[usage.Day]usage.Sums {
	stored := map[source]usage.Sums{}
	for _, h := range held {
		if day, err := usage.ParseDay(h.Day); err == nil {
			stored[source{day, usage.CounterSource(h.Source)}] = usage.Sums{}
		}
	}
	for _, c := range d.counters {
		if sums := stored[source{c.Day, c.Source}]; sums != nil {
			sums.Add(c.Counts)
		}
	}
	more := map[usage.Day]usage.Sums{}
	for _, h := range held {
		day, err := usage.ParseDay(h.Day)
		if err != nil || day.Closed(now) || day > usage.DayOf(now) {
			continue
		}
		prefix := apikey.Prefix(h.Prefix)
		was := stored[source{day, usage.CounterSource(h.Source)}][prefix]
		if more[day] == nil {
			more[day] = usage.Sums{}
		}
		more[day][prefix] = more[day][prefix].Plus(usage.Totals{
			Allowed: beyond(h.Allowed, was.Allowed), RateDenied: beyond(h.RateDenied, was.RateDenied), QuotaDenied: beyond(h.QuotaDenied, was.QuotaDenied),
		})
	}
	return more
}

func beyond(held, stored uint64) uint64 {
	if held <= stored {
		return 0
	}
	return held - stored
}
