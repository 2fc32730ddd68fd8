package usage

import (
	"iter"
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

// Max gives the larger of each total.
func (t Totals) Max(o Totals) Totals {
	return Totals{max(t.Allowed, o.Allowed), max(t.RateDenied, o.RateDenied), max(t.QuotaDenied, o.QuotaDenied)}
}

// Covers tells whether none of o's totals is larger.
func (t Totals) Covers(o Totals) bool { return t.Max(o) == t }
