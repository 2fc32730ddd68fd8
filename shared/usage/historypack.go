package usage

import (
	"encoding/binary"
	"math"
)

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
