package view

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
)

// meanShard is the maximum mean number of keys per shard. Random hashes exceed maxShard with a
// probability of 1 in 10^80.
const (
	meanShard = 512
	maxShard  = 1023
)

// entry is a key in a shard. It fits in one cache line, so that a lookup waits for memory only once.
// Fields of variable length are in the shard's slices.
type entry struct {
	prefix  [apikey.PrefixLength]byte
	secret  apikey.Hash
	expires int64 // Unix nanoseconds; math.MaxInt64 for none
	slot    uint32
	plan    uint32
	scope   scope
	more    more
}

// scope is everyApp, the symbol of one app plus 1, or the index of a list in shard.scopes: its
// length, followed by symbols.
type scope uint32

const (
	everyApp scope = 0
	isList   scope = 1 << 31
)

// more contains a key's status and its position in shard.extras.
type more uint32

const (
	isActive  more = 1 << 31
	isRotated more = 1 << 30
	extraMask      = isRotated - 1
)

type previous struct {
	secret apikey.Hash
	until  int64
}

// shard is a hash table of keys with open addressing.
type shard struct {
	entries  []entry
	scopes   []uint32
	previous []previous

	// extras contains the length of a name and an index in previous (two bytes each), then the
	// name. The position in entry.more is 1 higher.
	extras string

	index index // after all pointers, so that the garbage collector does not scan it
}

const extraHead = 4

//nolint:gochecknoglobals // constants for lookups without a result
var (
	noEntry    = entry{expires: math.MinInt64}
	emptyShard shard
	noPrevious = previous{until: math.MinInt64}
)

func (s *shard) name(e *entry) string {
	at := e.more & extraMask
	if at == 0 {
		return ""
	}
	x := s.extras[at-1:]
	return x[extraHead:][:uint16(x[0])|uint16(x[1])<<8]
}

func (s *shard) previousSecret(e *entry) *previous {
	if e.more&isRotated == 0 {
		return &noPrevious
	}
	x := s.extras[e.more&extraMask-1:]
	return &s.previous[uint16(x[2])|uint16(x[3])<<8]
}

// apps returns the symbols of an entry's scope, or nil for every app. It stores a single symbol
// in one.
func (s *shard) apps(e *entry, one *[1]uint32) []uint32 {
	switch {
	case e.scope == everyApp:
		return nil
	case e.scope&isList == 0:
		one[0] = uint32(e.scope) - 1
		return one[:]
	}
	at := e.scope &^ isList
	return s.scopes[at+1:][:s.scopes[at]]
}

// hash mixes a prefix. The service draws prefixes at random, so no client can cause collisions.
func hash(prefix []byte) uint64 {
	h := binary.LittleEndian.Uint64(prefix)
	h ^= h >> 32
	h *= 0x9E3779B97F4A7C15
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return h ^ h>>32
}

// spot returns the first position for a hash.
func spot(h uint64) uint16 { return uint16(h >> 54) }

func (s *shard) find(h uint64, prefix []byte) *entry {
	for i := spot(h); ; i++ {
		at := s.index[i&maxShard]
		if at == 0 {
			return nil
		}
		if e := &s.entries[at-1]; string(e.prefix[:]) == string(prefix) {
			return e
		}
	}
}

// record is an unpacked key.
type record struct {
	entry
	previous *previous
	scope    []uint32
	name     string
	gone     bool
}

func (s *shard) keys() int {
	if s == nil {
		return 0
	}
	return len(s.entries)
}

func (s *shard) records() []record {
	if s == nil {
		return nil
	}
	out := make([]record, len(s.entries))
	for i, e := range s.entries {
		out[i] = record{entry: e, scope: s.apps(&e, new([1]uint32)), name: s.name(&e)}
		if e.more&isRotated != 0 {
			out[i].previous = s.previousSecret(&e)
		}
	}
	return out
}

// draft is an unpacked shard.
type draft struct {
	records []record
	index   index
}

func (s *shard) draft() *draft {
	d := &draft{records: s.records()}
	if s != nil {
		d.index = s.index
	}
	return d
}

// find also finds deleted records.
func (d *draft) find(prefix []byte) *record {
	for i := spot(hash(prefix)); ; i++ {
		at := d.index[i&maxShard]
		if at == 0 {
			return nil
		}
		if r := &d.records[at-1]; string(r.prefix[:]) == string(prefix) {
			return r
		}
	}
}

// add returns false if the draft is full.
func (d *draft) add(r record) bool {
	if len(d.records) == maxShard {
		return false
	}
	d.records = append(d.records, r)
	d.index.put(r.prefix, len(d.records))
	return true
}

func pack(records []record) *shard {
	if len(records) == 0 {
		return nil
	}
	s := &shard{entries: make([]entry, len(records))}
	var extras []byte
	for i, r := range records {
		e := r.entry
		e.scope = s.addScope(r.scope)
		e.more &= isActive
		if r.name != "" || r.previous != nil {
			e.more |= more(len(extras) + 1)
			extras = binary.LittleEndian.AppendUint16(extras, uint16(len(r.name)))
			extras = binary.LittleEndian.AppendUint16(extras, uint16(len(s.previous)))
			extras = append(extras, r.name...)
		}
		if r.previous != nil {
			e.more |= isRotated
			s.previous = append(s.previous, *r.previous)
		}
		s.entries[i] = e
		s.index.put(e.prefix, i+1)
	}
	s.scopes, s.previous, s.extras = slices.Clip(s.scopes), slices.Clip(s.previous), string(extras)
	return s
}

func (s *shard) addScope(symbols []uint32) scope {
	switch len(symbols) {
	case 0:
		return everyApp
	case 1:
		return scope(symbols[0] + 1)
	}
	at := scope(len(s.scopes))
	s.scopes = append(append(s.scopes, uint32(len(symbols))), symbols...)
	return isList | at
}

// index contains positions in entries, plus 1; 0 is free. A key is at its spot or after it. One
// position is always free, so every search ends.
type index [maxShard + 1]uint16

func (x *index) put(prefix [apikey.PrefixLength]byte, at int) {
	i := spot(hash(prefix[:]))
	for x[i&maxShard] != 0 {
		i++
	}
	x[i&maxShard] = uint16(at)
}
