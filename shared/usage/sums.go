package usage

import (
	"cmp"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
)

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
