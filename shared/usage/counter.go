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

// Source names one checker process: random, fresh at each start.
type Source string

// Shards is how many documents a source's day is spread over: the most that one
// flush writes, however many keys and requests there were.
const Shards = 64

// Counter is one document of counters: what one source has counted of one shard
// of the keys in one day, as absolute totals that only ever grow.
type Counter struct {
	Day    Day
	Source Source
	Shard  int // 0 to [Shards]-1; which keys share a shard is the source's own affair
	Counts Packed

	// Damaged is the reason why the stored counts cannot be read. Such a counter has no
	// counts.
	Damaged error
}

// CounterID is the id of a counter's document.
func CounterID(day Day, source Source, shard int) string {
	return day.String() + "." + string(source) + "." + strconv.Itoa(shard)
}

// Count is one key's totals within a Counter.
type Count struct {
	Prefix apikey.Prefix
	Totals Totals
}

// ErrDamaged says that packed counts cannot be read.
var ErrDamaged = errors.New("packed counts are damaged")

// Packed are counts as bytes: for each key its prefix's 8 bytes and its three
// totals as varints. A busy shard's document stays far below Firestore's 1 MiB:
// about 14 bytes a key, where a map of fields would take about 80.
type Packed []byte

// Pack adds one key's totals at p's end.
func (p Packed) Pack(prefix apikey.Prefix, t Totals) Packed {
	p = append(p, prefix...)
	p = binary.AppendUvarint(p, t.Allowed)
	p = binary.AppendUvarint(p, t.RateDenied)
	return binary.AppendUvarint(p, t.QuotaDenied)
}

// Check tells whether p can be read to its end. Error: [ErrDamaged].
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

// All gives the counts in p; of damaged ones those before the damage.
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

// Equal tells whether two are the same, byte for byte.
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

// Sums are keys' totals over any number of counters.
type Sums map[apikey.Prefix]Totals

// Add adds what a counter holds.
func (s Sums) Add(counts Packed) {
	for c := range counts.All() {
		s[c.Prefix] = s[c.Prefix].Plus(c.Totals)
	}
}

// Counts gives the sums in the order of prefixes.
func (s Sums) Counts() []Count {
	counts := make([]Count, 0, len(s))
	for p, t := range s {
		counts = append(counts, Count{Prefix: p, Totals: t})
	}
	slices.SortFunc(counts, func(a, b Count) int { return cmp.Compare(a.Prefix, b.Prefix) })
	return counts
}

// compacted names the sources of counters that sum up those of others.
const compacted = "compacted"

const (
	// maxCompacted bounds a compacted counter, in bytes: half of what a document
	// may hold. Sources put keys into shards each in its own way, so the sum of
	// some small counters can be a large one.
	maxCompacted = 512 << 10
	// compactedParts is how many such counters a shard of a day can have: room for
	// some 300 000 keys in each of the 64 shards.
	compactedParts = 8
)

// ErrTooMany says that a shard has more keys than its compacted counters can hold.
var ErrTooMany = errors.New("more keys than compacted counters can hold")

// Compacted tells whether a source stands for others that were summed up.
func (s Source) Compacted() bool {
	return s == compacted || strings.HasPrefix(string(s), compacted+"-")
}

// CompactedSources are all sources that are [Source.Compacted]. Most shards have
// a counter of the first one alone.
func CompactedSources() []Source {
	all := make([]Source, compactedParts)
	for i := range all {
		all[i] = part(i)
	}
	return all
}

// Compact sums up the counters of one day and shard into one of a source that is
// [Source.Compacted], or into a few where one would be too large. They hold, key
// for key, exactly what the counters given held. Error: [ErrTooMany].
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

func part(i int) Source {
	if i == 0 {
		return compacted
	}
	return Source(compacted + "-" + strconv.Itoa(i))
}
