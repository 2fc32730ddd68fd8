package meter

import (
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
)

// base is what other sources, replicas and earlier processes alike, have
// allowed each key in the current day, week and month, as far as it was heard.
type base struct {
	now     time.Time // whose day, week and month it is about
	periods [3]span   // in the order of periods
	sums    slots.Table[[3]atomic.Uint64]
	early   map[apikey.Prefix][3]uint64 // of keys that have no slot yet; guarded by Meter.mu
}

// span is a period's days and end.
type span struct {
	first usage.Day
	end   int64 // Unix nanoseconds
}

// place is where a period stands in a base's arrays.
func place(p plan.Period) int {
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
	b := &base{now: now, early: map[apikey.Prefix][3]uint64{}}
	for _, p := range [...]plan.Period{plan.Day, plan.Week, plan.Month} {
		b.periods[place(p)] = span{first: usage.DayOf(p.Start(now)), end: p.End(now).UnixNano()}
	}
	b.sums.Grow(size)
	return b
}

// used is what others have allowed a slot in the period that holds now; a
// period that is over counts nothing.
func (b *base) used(slot uint32, p plan.Period, now int64) uint64 {
	at := place(p)
	if now >= b.periods[at].end || slot >= b.sums.Len() {
		return 0
	}
	return b.sums.At(slot)[at].Load()
}

// oldest is the first day that any period holds.
func (b *base) oldest() usage.Day { return min(b.periods[1].first, b.periods[2].first) }

// add adds what a source allowed a key on a day; slot is the key's, unless it
// has none yet. delta may be negative, as two's complement: sums are exact all the same.
func (b *base) add(day usage.Day, prefix apikey.Prefix, slot uint32, hasSlot bool, delta uint64) {
	var deltas [3]uint64
	for i, p := range b.periods {
		if day >= p.first && day.Start().UnixNano() < p.end {
			deltas[i] = delta
		}
	}
	if !hasSlot {
		sums := b.early[prefix]
		for i := range sums {
			sums[i] += deltas[i]
		}
		b.early[prefix] = sums
		return
	}
	for i := range deltas {
		if deltas[i] != 0 {
			b.sums.At(slot)[i].Add(deltas[i])
		}
	}
}

// adopt gives a key that has just got its slot what was heard of it before.
func (b *base) adopt(prefix apikey.Prefix, slot uint32) {
	sums, ok := b.early[prefix]
	if !ok {
		return
	}
	delete(b.early, prefix)
	for i := range sums {
		b.sums.At(slot)[i].Add(sums[i])
	}
}
