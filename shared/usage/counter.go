package usage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/shared/apikey"
)

// CounterSource identifies a checker process by a random name.
type CounterSource string

// Shards is the number of documents per source and day, and thus the maximum that a flush writes.
const Shards = 64

// Counter contains the absolute totals of one source for one shard of the keys and one day. Totals
// never decrease.
type Counter struct {
	Day    Day
	Source CounterSource
	Shard  int // 0 to [Shards]-1; sources may assign the same key to different shards
	Counts Packed

	// Damaged is the reason why the stored counts are unreadable.
	Damaged error
}

// CounterID returns the ID of a counter's document.
func CounterID(day Day, source CounterSource, shard int) string {
	return day.String() + "." + string(source) + "." + strconv.Itoa(shard)
}

// Count is one key's totals in a Counter.
type Count struct {
	Prefix apikey.Prefix
	Totals Totals
}

// ErrDamaged is returned for unreadable packed counts.
var ErrDamaged = errors.New("packed counts are damaged")

// Packed is the encoded form of counts: for each key its 8-byte prefix and three totals as varints,
// about 14 bytes. A map of fields would take about 80; Firestore's limit is 1 MiB per document.
type Packed []byte

// Pack appends one key's totals.
func (p Packed) Pack(prefix apikey.Prefix, t Totals) Packed {
	p = append(p, prefix...)
	p = binary.AppendUvarint(p, t.Allowed)
	p = binary.AppendUvarint(p, t.RateDenied)
	return binary.AppendUvarint(p, t.QuotaDenied)
}

// Check returns [ErrDamaged] if p is unreadable.
func (p Packed) Check() error {
	for len(p) > 0 {
		_, rest, ok := p.next()
		if !ok {
			return ErrDamaged
		}
		p = rest
	}
	return nil
}

// All iterates over the counts. It stops at damaged data.
func (p Packed) All() iter.Seq[Count] {
	return func(yield func(Count) bool) {
		for len(p) > 0 {
			c, rest, ok := p.next()
			if !ok || !yield(c) {
				return
			}
			p = rest
		}
	}
}

// Equal compares the bytes.
func (p Packed) Equal(o Packed) bool { return bytes.Equal(p, o) }

func (p Packed) next() (c Count, rest Packed, ok bool) {
	if len(p) < apikey.PrefixLength || !apikey.ValidPrefix(string(p[:apikey.PrefixLength])) {
		return Count{}, nil, false
	}
	c.Prefix, rest = apikey.Prefix(p[:apikey.PrefixLength]), p[apikey.PrefixLength:]
	for _, total := range [...]*uint64{&c.Totals.Allowed, &c.Totals.RateDenied, &c.Totals.QuotaDenied} {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			return Count{}, nil, false
		}
		*total, rest = v, rest[n:]
	}
	return c, rest, true
}

// Sums are keys' totals over several counters.
type Sums map[apikey.Prefix]Totals

// Add adds the counts of a counter.
func (s Sums) Add(counts Packed) {
	for c := range counts.All() {
		s[c.Prefix] = s[c.Prefix].Plus(c.Totals)
	}
}

// Counts returns the sums, sorted by prefix.
func (s Sums) Counts() []Count {
	counts := make([]Count, 0, len(s))
	for p, t := range s {
		counts = append(counts, Count{Prefix: p, Totals: t})
	}
	slices.SortFunc(counts, func(a, b Count) int { return cmp.Compare(a.Prefix, b.Prefix) })
	return counts
}

const compacted = "compacted"

const (
	// maxCompacted is the maximum size of a compacted counter, in bytes: half of a document.
	maxCompacted = 512 << 10
	// compactedParts is the maximum number of compacted counters per shard and day. They can hold
	// about 300,000 keys.
	compactedParts = 8
)

// ErrTooMany is returned if a shard has more keys than its compacted counters can hold.
var ErrTooMany = errors.New("more keys than compacted counters can hold")

// Compacted reports whether s is the source of compacted counters.
func (s CounterSource) Compacted() bool {
	return s == compacted || strings.HasPrefix(string(s), compacted+"-")
}

// CompactedSources returns the sources of compacted counters. Most shards have only the first.
func CompactedSources() []CounterSource {
	all := make([]CounterSource, compactedParts)
	for i := range all {
		all[i] = part(i)
	}
	return all
}

// Compact returns the sum of the counters of one day and shard. It splits a sum that is too large
// for one document, and returns [ErrTooMany] if even that is not enough.
func Compact(day Day, shard int, counters []Counter) ([]Counter, error) {
	sums := Sums{}
	for _, c := range counters {
		sums.Add(c.Counts)
	}
	parts := compactParts(day, shard, sums.Counts(), maxCompacted)
	if len(parts) > compactedParts {
		return nil, fmt.Errorf("shard %d of %s: %w", shard, day, ErrTooMany)
	}
	return parts, nil
}

func compactParts(day Day, shard int, counts []Count, limit int) []Counter {
	var parts []Counter
	var packed Packed
	for i, c := range counts {
		packed = packed.Pack(c.Prefix, c.Totals)
		if len(packed) >= limit || i == len(counts)-1 {
			parts = append(parts, Counter{Day: day, Source: part(len(parts)), Shard: shard, Counts: packed})
			packed = nil
		}
	}
	return parts
}

func part(i int) CounterSource {
	if i == 0 {
		return compacted
	}
	return CounterSource(compacted + "-" + strconv.Itoa(i))
}
