package usage

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
)

// Dated is the totals of one day.
type Dated struct {
	Day    Day
	Totals Totals
}

// History is the stored usage of a key: the days with requests, ascending. Methods do not modify
// it.
type History []Dated

// Totals returns a day's totals.
func (h History) Totals(day Day) Totals {
	if i, ok := h.find(day); ok {
		return h[i].Totals
	}
	return Totals{}
}

// Merge merges a day's totals into the history. Totals never decrease, so the larger total is the
// later one. A sum that is outdated or lacks deleted counters thus changes nothing.
func (h History) Merge(day Day, t Totals) History {
	if h.Totals(day).Covers(t) {
		return h
	}
	raised := slices.Clone(h)
	i, ok := h.find(day)
	if ok {
		raised[i].Totals = h[i].Totals.Max(t)
		return raised
	}
	return slices.Insert(raised, i, Dated{Day: day, Totals: t})
}

// Since returns the history without the days before first.
func (h History) Since(first Day) History {
	i, _ := h.find(first)
	return h[i:]
}

// Equal reports whether the histories are equal.
func (h History) Equal(o History) bool { return slices.Equal(h, o) }

// Counted iterates over the days with requests.
func (h History) Counted() iter.Seq[Dated] {
	return func(yield func(Dated) bool) {
		for _, d := range h {
			if !d.Totals.Zero() && !yield(d) {
				return
			}
		}
	}
}

func (h History) find(day Day) (int, bool) {
	return slices.BinarySearchFunc(h, day, func(d Dated, day Day) int { return int(d.Day) - int(day) })
}

// LastSeen returns the last stored day with requests.
func (h History) LastSeen(today Day) (Day, bool) {
	last, seen := Day(0), false
	for d := range h.Counted() {
		if d.Day >= EarliestKept(today) && d.Day <= today {
			last, seen = d.Day, true
		}
	}
	return last, seen
}

// Total returns the sum of a window's days.
func (h History) Total(w Window) Totals {
	var sum Totals
	for _, d := range h.Since(w.From) {
		if d.Day <= w.To {
			sum = sum.Plus(d.Totals)
		}
	}
	return sum
}

// Pack encodes a history: for each day the distance from the previous one (initially 1970-01-01)
// and three totals, all as varints. 92 busy days take about 1 KiB.
func (h History) Pack() []byte {
	var b []byte
	last := Day(0)
	for _, d := range h {
		b = binary.AppendUvarint(b, uint64(d.Day-last))
		b = binary.AppendUvarint(b, d.Totals.Allowed)
		b = binary.AppendUvarint(b, d.Totals.RateDenied)
		b = binary.AppendUvarint(b, d.Totals.QuotaDenied)
		last = d.Day
	}
	return b
}

// UnpackHistory decodes the result of Pack. It may return [ErrDamaged].
func UnpackHistory(b []byte) (History, error) {
	var h History
	last := uint64(0)
	for len(b) > 0 {
		var v [4]uint64
		for i := range v {
			x, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, ErrDamaged
			}
			v[i], b = x, b[n:]
		}
		if v[0] > math.MaxInt32-last || v[0] == 0 && len(h) > 0 {
			return nil, ErrDamaged
		}
		last += v[0]
		h = append(h, Dated{Day: Day(last), Totals: Totals{v[1], v[2], v[3]}})
	}
	return h, nil
}
