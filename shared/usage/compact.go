package usage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

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
