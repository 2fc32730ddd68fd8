package meter

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// block is the number of adjacent slots in one document. Slots are assigned in order, so a few
// keys need one document per flush.
const block = 1 << 10

type cell struct {
	prefix      atomic.Uint64 // 0 until the first request
	allowed     atomic.Uint64
	rateDenied  atomic.Uint64
	quotaDenied atomic.Uint64
}

// dayTable contains the counts of all keys on one day. Each table is a separate source.
type dayTable struct {
	day        usage.Day
	start, end int64 // Unix nanoseconds
	source     usage.CounterSource
	cells      slots.Table[cell]
	shards     [usage.Shards]shardState
}

type shardState struct {
	dirty     atomic.Bool // counted since the last write began
	version   store.CounterVersion
	uncertain bool
}

func newDayTable(day usage.Day, source usage.CounterSource, size uint32) *dayTable {
	t := &dayTable{day: day, start: day.Start().UnixNano(), end: (day + 1).Start().UnixNano(), source: source}
	t.cells.Grow(size)
	return t
}

func (t *dayTable) covers(now int64) bool { return t != nil && now >= t.start && now < t.end }

func (t *dayTable) cell(slot uint32, prefix string) *cell {
	c := t.cells.At(slot)
	if c.prefix.Load() == 0 {
		c.prefix.Store(prefixNumber(prefix))
	}
	return c
}

// touch marks a slot's shard. Callers count first, and a flush clears the mark before it reads, so
// each count is read or marked again.
func (t *dayTable) touch(slot uint32) {
	d := &t.shards[slot/block%usage.Shards].dirty
	if !d.Load() {
		d.Store(true)
	}
}

func (t *dayTable) allowedIn(slot uint32) uint64 {
	if t == nil || slot >= t.cells.Len() {
		return 0
	}
	return t.cells.At(slot).allowed.Load()
}

func (t *dayTable) pack(shard int) usage.Packed {
	var p usage.Packed
	for first := uint32(shard) * block; first < t.cells.Len(); first += block * usage.Shards {
		for slot := first; slot < min(first+block, t.cells.Len()); slot++ {
			c := t.cells.At(slot)
			n := c.prefix.Load()
			if n == 0 {
				continue
			}
			totals := usage.Totals{Allowed: c.allowed.Load(), RateDenied: c.rateDenied.Load(), QuotaDenied: c.quotaDenied.Load()}
			if !totals.Zero() {
				p = p.Pack(prefixOf(n), totals)
			}
		}
	}
	return p
}

func (t *dayTable) clean() bool {
	for i := range t.shards {
		if t.shards[i].dirty.Load() {
			return false
		}
	}
	return true
}

// committed returns the store's time of the last write, or zero. Only a flush may call it.
func (t *dayTable) committed() (last time.Time) {
	for i := range t.shards {
		last = latest(last, t.shards[i].version.Time())
	}
	return last
}

func prefixNumber(prefix string) uint64 {
	var b [apikey.PrefixLength]byte
	copy(b[:], prefix)
	return binary.LittleEndian.Uint64(b[:])
}

func prefixOf(n uint64) apikey.Prefix {
	return apikey.Prefix(binary.LittleEndian.AppendUint64(nil, n))
}
