package meter

import (
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
)

// base contains the requests that other sources have allowed each key in the current periods.
type base struct {
	now        time.Time
	periods    [3]span // by periodIndex
	sums       slots.Table[[3]atomic.Uint64]
	unassigned map[apikey.Prefix][3]uint64 // of keys without a slot; guarded by Meter.mu
}

type span struct {
	first usage.Day
	end   int64
}

func periodIndex(p plan.Period) int {
	switch p {
	case plan.Week:
		return 1
	case plan.Month:
		return 2
	case plan.Day:
	}
	return 0
}

func newBase(now time.Time, size uint32) *base {
	b := &base{now: now, unassigned: map[apikey.Prefix][3]uint64{}}
	for _, p := range [...]plan.Period{plan.Day, plan.Week, plan.Month} {
		b.periods[periodIndex(p)] = span{first: usage.DayOf(p.Start(now)), end: p.End(now).UnixNano()}
	}
	b.sums.Grow(size)
	return b
}

// used returns the requests of a slot in the current period, or 0 if the period has ended.
func (b *base) used(slot uint32, p plan.Period, now int64) uint64 {
	i := periodIndex(p)
	if now >= b.periods[i].end || slot >= b.sums.Len() {
		return 0
	}
	return b.sums.At(slot)[i].Load()
}

func (b *base) oldest() usage.Day { return min(b.periods[1].first, b.periods[2].first) }

// add adds requests of a key on a day. A negative delta is in two's complement.
func (b *base) add(day usage.Day, prefix apikey.Prefix, slot uint32, hasSlot bool, delta uint64) {
	var deltas [3]uint64
	for i, p := range b.periods {
		if day >= p.first && day.Start().UnixNano() < p.end {
			deltas[i] = delta
		}
	}
	if !hasSlot {
		sums := b.unassigned[prefix]
		for i := range sums {
			sums[i] += deltas[i]
		}
		b.unassigned[prefix] = sums
		return
	}
	for i := range deltas {
		if deltas[i] != 0 {
			b.sums.At(slot)[i].Add(deltas[i])
		}
	}
}

// backfill adds the counts that arrived before their key.
func (b *base) backfill(prefix apikey.Prefix, slot uint32) {
	sums, ok := b.unassigned[prefix]
	if !ok {
		return
	}
	delete(b.unassigned, prefix)
	for i := range sums {
		b.sums.At(slot)[i].Add(sums[i])
	}
}
