// Package slots stores one small mutable value per key, such as its token bucket. The index of
// the value is the slot that the view assigns to the key, so access needs no lock and no map.
// Values never move, so pointers to them stay valid while a table grows.
package slots

import (
	"iter"
	"math/bits"
	"sync/atomic"
)

const chunkSize = 1 << 10

// Table is a growing array. T should contain no pointers, so that the garbage collector does not
// scan it.
type Table[T any] struct {
	chunks atomic.Pointer[[]*[chunkSize]T]
}

// Grow makes room for the slots below n. Only one goroutine may call it at a time.
func (t *Table[T]) Grow(n uint32) {
	var chunks []*[chunkSize]T
	if p := t.chunks.Load(); p != nil {
		chunks = *p
	}
	need := (int(n) + chunkSize - 1) / chunkSize
	if need <= len(chunks) {
		return
	}
	grown := make([]*[chunkSize]T, len(chunks), need+need/4)
	copy(grown, chunks)
	for len(grown) < need {
		grown = append(grown, new([chunkSize]T))
	}
	t.chunks.Store(&grown)
}

// At returns the value of a slot below Len.
func (t *Table[T]) At(slot uint32) *T {
	return &(*t.chunks.Load())[slot/chunkSize][slot%chunkSize]
}

// Len returns the number of slots in the table.
func (t *Table[T]) Len() uint32 {
	p := t.chunks.Load()
	if p == nil {
		return 0
	}
	return uint32(len(*p) * chunkSize)
}

// Set is a set of slots. Goroutines can add slots while one goroutine drains it.
type Set struct {
	words Table[atomic.Uint64]
}

// Grow makes room for the slots below n, like [Table.Grow].
func (s *Set) Grow(n uint32) { s.words.Grow((n + 63) / 64) }

// Add adds a slot. It only reads if the set already contains the slot.
func (s *Set) Add(slot uint32) {
	word, bit := s.words.At(slot/64), uint64(1)<<(slot%64)
	if word.Load()&bit == 0 {
		word.Or(bit)
	}
}

// Drain removes all slots and returns them.
func (s *Set) Drain() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := range s.words.Len() {
			word := s.words.At(i)
			if word.Load() == 0 {
				continue
			}
			for w := word.Swap(0); w != 0; w &= w - 1 {
				if !yield(i*64 + uint32(bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}
