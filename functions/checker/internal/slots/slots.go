// Package slots holds one small mutable value per key: its token bucket, its
// counters. The immutable view gives every key a slot number; a value is reached
// by one index, without a lock and without a map.
//
// Values live in chunks that never move, so a pointer into a table stays good
// while the table grows. A slot goes to another key only when none of its values belong to
// the previous one: a deleted key's last counts must still find their owner.
package slots

import (
	"iter"
	"math/bits"
	"sync/atomic"
)

const chunkSize = 1 << 10

// Table is a growing array of T. T should hold no pointers, so that the
// garbage collector has nothing to do with a million of them.
type Table[T any] struct {
	chunks atomic.Pointer[[]*[chunkSize]T]
}

// Grow makes room for slots below n. One goroutine at a time may call it.
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

// At gives the value of a slot below what Grow has made room for.
func (t *Table[T]) At(slot uint32) *T {
	return &(*t.chunks.Load())[slot/chunkSize][slot%chunkSize]
}

// Len is how many slots there is room for.
func (t *Table[T]) Len() uint32 {
	p := t.chunks.Load()
	if p == nil {
		return 0
	}
	return uint32(len(*p) * chunkSize)
}

// Set is a set of slots: any number of goroutines add to it, one takes out what is in it.
type Set struct {
	words Table[atomic.Uint64]
}

// Grow makes room for slots below n. One goroutine at a time may call it.
func (s *Set) Grow(n uint32) { s.words.Grow((n + 63) / 64) }

// Add adds a slot below what Grow has made room for. One that is in the set already is
// only looked at, so that many who add the same one do not wait for each other.
func (s *Set) Add(slot uint32) {
	word, bit := s.words.At(slot/64), uint64(1)<<(slot%64)
	if word.Load()&bit == 0 {
		word.Or(bit)
	}
}

// Drain takes all slots out and gives them.
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
