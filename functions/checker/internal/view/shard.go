package view

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
)

// shardCount keeps a shard small (122 keys of a million) and the array of
// pointers too (64 KiB): a change copies one of each.
const shardCount = 1 << 13

// entry is a key in a shard. It holds no pointers: names, scopes and previous
// secrets are places in the shard's slices.
type entry struct {
	prefix    [apikey.PrefixLength]byte
	secret    apikey.Hash
	expires   int64 // Unix nanoseconds; MaxInt64 never
	slot      uint32
	namespace uint32 // symbol
	plan      uint32 // place in the plan table
	scopeAt   uint32
	nameAt    uint32
	scopeLen  uint16
	nameLen   uint16
	previous  uint16 // place in shard.previous plus 1; 0 is none
	active    bool
	revoked   bool // tells why a key is not active; opens nothing
}

type previous struct {
	secret apikey.Hash
	until  int64 // Unix nanoseconds
}

// shard holds the keys of one part of the hash space, found by open addressing.
type shard struct {
	index    []uint16 // places in entries plus 1, 0 is free; a power of two long, at most half full
	entries  []entry
	previous []previous
	scopes   []uint32 // symbols of app names
	names    string   // header values, one after the other
}

//nolint:gochecknoglobals // constants: what a look-up that finds nothing finds
var (
	nobody     = entry{expires: math.MinInt64}
	empty      shard
	noPrevious = previous{until: math.MinInt64}
)

// hash mixes a prefix's 8 bytes. Prefixes are drawn at random by the service
// itself, so nobody can choose many that fall together.
func hash(prefix []byte) uint64 {
	h := binary.LittleEndian.Uint64(prefix)
	h ^= h >> 32
	h *= 0x9E3779B97F4A7C15
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return h ^ h>>32
}

// find gives the entry of a prefix, or nil.
func (s *shard) find(h uint64, prefix []byte) *entry {
	mask := uint64(len(s.index) - 1)
	for i := h / shardCount & mask; ; i = (i + 1) & mask {
		at := s.index[i]
		if at == 0 {
			return nil
		}
		if e := &s.entries[at-1]; string(e.prefix[:]) == string(prefix) {
			return e
		}
	}
}

// record is a key on its way into a shard, with everything in its own place.
type record struct {
	entry
	before *previous
	scope  []uint32
	name   string
}

// records takes a shard apart; nil is an empty one.
func (s *shard) records() []record {
	if s == nil {
		return nil
	}
	out := make([]record, len(s.entries))
	for i, e := range s.entries {
		out[i] = record{entry: e, scope: s.scopes[e.scopeAt:][:e.scopeLen], name: s.names[e.nameAt:][:e.nameLen]}
		if e.previous != 0 {
			out[i].before = &s.previous[e.previous-1]
		}
	}
	return out
}

// pack builds a shard of records with different prefixes; nil of none.
func pack(records []record) *shard {
	if len(records) == 0 {
		return nil
	}
	size := 2
	for size < 2*len(records) {
		size *= 2
	}
	s := &shard{index: make([]uint16, size), entries: make([]entry, len(records))}
	var names []byte
	for i, r := range records {
		e := r.entry
		e.scopeAt, e.scopeLen = uint32(len(s.scopes)), uint16(len(r.scope))
		e.nameAt, e.nameLen = uint32(len(names)), uint16(len(r.name))
		e.previous = 0
		s.scopes = append(s.scopes, r.scope...)
		names = append(names, r.name...)
		if r.before != nil {
			s.previous = append(s.previous, *r.before)
			e.previous = uint16(len(s.previous))
		}
		s.entries[i] = e
		s.place(e.prefix[:], uint16(i+1))
	}
	s.scopes, s.previous, s.names = slices.Clip(s.scopes), slices.Clip(s.previous), string(names)
	return s
}

func (s *shard) place(prefix []byte, at uint16) {
	mask := uint64(len(s.index) - 1)
	i := hash(prefix) / shardCount & mask
	for s.index[i] != 0 {
		i = (i + 1) & mask
	}
	s.index[i] = at
}
