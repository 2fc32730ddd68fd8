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

// block is how many neighbouring slots are flushed together. Slots are given
// out in the order in which keys appear, so a few keys fill one block and cost
// one document a flush.
const block = 1 << 10

// cell counts one key in one day.
type cell struct {
	prefix      atomic.Uint64 // the key's, as a number; 0 until it is first counted
	allowed     atomic.Uint64
	rateDenied  atomic.Uint64
	quotaDenied atomic.Uint64
}

// dayTable counts all keys in one day. It is a source of its own: a table made
// anew for a day that was counted before writes documents of its own.
type dayTable struct {
	day        usage.Day
	start, end int64 // Unix nanoseconds
	source     usage.Source
	cells      slots.Table[cell]
	shards     [usage.Shards]shardState
}

// shardState is what is known of one of the table's documents.
type shardState struct {
	dirty   atomic.Bool // counted since the last write began
	version store.CounterVersion
	unclear bool // the last write's outcome is not known: ask before the next one
}

func newDayTable(day usage.Day, source usage.Source, size uint32) *dayTable {
	t := &dayTable{day: day, start: day.Start().UnixNano(), end: (day + 1).Start().UnixNano(), source: source}
	t.cells.Grow(size)
	return t
}

func (t *dayTable) covers(now int64) bool { return t != nil && now >= t.start && now < t.end }

// cell gives a key's cell and notes whose it is.
func (t *dayTable) cell(slot uint32, prefix string) *cell {
	c := t.cells.At(slot)
	if c.prefix.Load() == 0 {
		c.prefix.Store(number(prefix))
	}
	return c
}

// touch marks a slot's shard as counted. It comes after the counting: a flush
// clears the mark before it reads, so a count is either read or marked again.
func (t *dayTable) touch(slot uint32) {
	d := &t.shards[slot/block%usage.Shards].dirty
	if !d.Load() {
		d.Store(true)
	}
}

// allowedIn gives what a slot was allowed in the table's day; a table that
// never grew to the slot has not counted it.
func (t *dayTable) allowedIn(slot uint32) uint64 {
	if t == nil || slot >= t.cells.Len() {
		return 0
	}
	return t.cells.At(slot).allowed.Load()
}

// pack gathers a shard's totals.
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

// clean tells whether everything counted has been written.
func (t *dayTable) clean() bool {
	for i := range t.shards {
		if t.shards[i].dirty.Load() {
			return false
		}
	}
	return true
}

// committed is when the table's last write was, by the store's clock; zero without
// one. Only the flush may ask.
func (t *dayTable) committed() (last time.Time) {
	for i := range t.shards {
		last = latest(last, t.shards[i].version.Time())
	}
	return last
}

func number(prefix string) uint64 {
	var b [apikey.PrefixLength]byte
	copy(b[:], prefix)
	return binary.LittleEndian.Uint64(b[:])
}

func prefixOf(n uint64) apikey.Prefix {
	return apikey.Prefix(binary.LittleEndian.AppendUint64(nil, n))
}
