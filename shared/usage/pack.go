package usage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"

	"github.com/sluicegate/sluice/shared/apikey"
)

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
