package usage

import (
	"strconv"
	"strings"
)

// compacted is the source of counters that sum up those of others.
const compacted = "compacted"

// maxCompacted bounds a compacted counter, in bytes: half of what a document may
// hold. Sources put keys into shards each in its own way, so the sum of some
// small counters can be a large one.
const maxCompacted = 512 << 10

// Compacted tells whether a source stands for others that were summed up.
func (s Source) Compacted() bool {
	return s == compacted || strings.HasPrefix(string(s), compacted+"-")
}

// Compact sums up the counters of one day and shard into one of a source that is
// [Source.Compacted], or into a few where one would be too large. They hold, key
// for key, exactly what the counters given held.
func Compact(day Day, shard int, counters []Counter) []Counter {
	sums := Sums{}
	for _, c := range counters {
		sums.Add(c.Counts)
	}
	return compactParts(day, shard, sums.Counts(), maxCompacted)
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
