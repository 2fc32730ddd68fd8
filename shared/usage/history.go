package usage

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
)

// Dated are the totals of one day.
type Dated struct {
	Day    Day
	Totals Totals
}

// History is what is kept of one key: the days that had any traffic, ascending.
// It is a value: no method changes it.
type History []Dated

// On gives a day's totals; those of a day without traffic are zero.
func (h History) On(day Day) Totals {
	if i, ok := h.find(day); ok {
		return h[i].Totals
	}
	return Totals{}
}

// Raise takes in what was counted on a day. Totals only ever grow, so of two
// sums the larger one is the later one, total by total: a sum that was read
// earlier, or after some of the day's counters were deleted, changes nothing.
func (h History) Raise(day Day, t Totals) History {
	if h.On(day).Covers(t) {
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

// Since leaves out the days before first.
func (h History) Since(first Day) History {
	i, _ := h.find(first)
	return h[i:]
}

// Equal tells whether two are the same.
func (h History) Equal(o History) bool { return slices.Equal(h, o) }

// Counted gives the days that are not zero.
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

// LastSeen is the last day with any traffic among those kept today.
func (h History) LastSeen(today Day) (Day, bool) {
	last, seen := Day(0), false
	for d := range h.Counted() {
		if d.Day >= EarliestKept(today) && d.Day <= today {
			last, seen = d.Day, true
		}
	}
	return last, seen
}

// Total adds up the days of a window.
func (h History) Total(w Window) Totals {
	var sum Totals
	for _, d := range h.Since(w.From) {
		if d.Day <= w.To {
			sum = sum.Plus(d.Totals)
		}
	}
	return sum
}

// Pack writes a history as bytes: for each day the distance from the day before
// (of the first, from 1970-01-01) and its three totals, all as varints. 92 busy
// days take about 1 KiB. Days before 1970 cannot be written and never occur.
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

// UnpackHistory reads what Pack wrote. Error: [ErrDamaged].
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
