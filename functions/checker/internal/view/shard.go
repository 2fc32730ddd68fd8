package view

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
)

// crowd is how many keys a shard holds on average at most. A change copies its
// shard, and no shard may come near maxShard: of random hashes, one in 10^80 does.
const (
	crowd    = 512
	maxShard = 1023
)

// entry is a key in a shard: one cache line, so that a look-up among millions
// waits for memory once. It holds no pointers: what does not fit is in the shard's
// slices, and the key's namespace is its plan's.
type entry struct {
	prefix  [apikey.PrefixLength]byte
	secret  apikey.Hash
	expires int64 // Unix nanoseconds; MaxInt64 never
	slot    uint32
	plan    uint32 // place in the plan table
	scope   scope
	more    more
}

// scope says which apps a key covers: none for all of its namespace, the symbol
// of an app's name, or a place in shard.scopes where a list lies: its length, then
// the symbols.
type scope uint32

const (
	everyApp scope = 0
	isList   scope = 1 << 31 // the rest is a place; without it, a symbol plus 1
)

// more is a key's status and where its rarer parts are in shard.extras.
type more uint32

const (
	isActive  more = 1 << 31
	isRotated more = 1 << 30 // the extra names a place in shard.previous
	extraMask      = isRotated - 1
)

type previous struct {
	secret apikey.Hash
	until  int64 // Unix nanoseconds
}

// shard holds the keys of one part of the hash space, found by open addressing.
// The index is a part of it, so that both are read at once.
type shard struct {
	entries  []entry
	scopes   []uint32
	previous []previous

	// extras holds, from the place in an entry's more on (minus 1; 0 is none): the
	// length of the name, the place in previous (two bytes each), and the name as a
	// header value.
	extras string

	index index // of entries; last, as the collector looks no further than the last pointer
}

const extraHead = 4 // bytes before the name

//nolint:gochecknoglobals // constants: what a look-up that finds nothing finds
var (
	nobody     = entry{expires: math.MinInt64}
	empty      shard
	noPrevious = previous{until: math.MinInt64}
)

// name gives an entry's name as a header value.
func (s *shard) name(e *entry) string {
	at := e.more & extraMask
	if at == 0 {
		return ""
	}
	x := s.extras[at-1:]
	return x[extraHead:][:uint16(x[0])|uint16(x[1])<<8]
}

// before gives the secret that an entry's rotation left valid.
func (s *shard) before(e *entry) *previous {
	if e.more&isRotated == 0 {
		return &noPrevious
	}
	x := s.extras[e.more&extraMask-1:]
	return &s.previous[uint16(x[2])|uint16(x[3])<<8]
}

// apps gives the symbols of an entry's scope; none is every app. one has room
// for the symbol of a scope of one app.
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

// spot is where in an index the search for a hash begins.
func spot(h uint64) uint16 { return uint16(h >> 54) }

// find gives the entry of a prefix, or nil.
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

// record is a key on its way into a shard, with everything in its own place.
type record struct {
	entry
	before *previous
	scope  []uint32
	name   string
	gone   bool // deleted from its draft
}

// keys is how many there are.
func (s *shard) keys() int {
	if s == nil {
		return 0
	}
	return len(s.entries)
}

// records takes a shard apart; nil is an empty one.
func (s *shard) records() []record {
	if s == nil {
		return nil
	}
	out := make([]record, len(s.entries))
	for i, e := range s.entries {
		out[i] = record{entry: e, scope: s.apps(&e, new([1]uint32)), name: s.name(&e)}
		if e.more&isRotated != 0 {
			out[i].before = s.before(&e)
		}
	}
	return out
}

// draft is a shard that is being changed: its records, found as a shard's entries are.
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

// find gives the record of a prefix, deleted or not, or nil.
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

// add puts in a record whose prefix is new, where there is room.
func (d *draft) add(r record) bool {
	if len(d.records) == maxShard {
		return false
	}
	d.records = append(d.records, r)
	d.index.put(r.prefix, len(d.records))
	return true
}

// pack builds a shard of records with different prefixes; nil of none.
func pack(records []record) *shard {
	if len(records) == 0 {
		return nil
	}
	s := &shard{entries: make([]entry, len(records))}
	var extras []byte
	for i, r := range records {
		e := r.entry
		e.scope = s.putScope(r.scope)
		e.more &= isActive
		if r.name != "" || r.before != nil {
			e.more |= more(len(extras) + 1)
			extras = binary.LittleEndian.AppendUint16(extras, uint16(len(r.name)))
			extras = binary.LittleEndian.AppendUint16(extras, uint16(len(s.previous)))
			extras = append(extras, r.name...)
		}
		if r.before != nil {
			e.more |= isRotated
			s.previous = append(s.previous, *r.before)
		}
		s.entries[i] = e
		s.index.put(e.prefix, i+1)
	}
	s.scopes, s.previous, s.extras = slices.Clip(s.scopes), slices.Clip(s.previous), string(extras)
	return s
}

// putScope keeps a list of symbols.
func (s *shard) putScope(symbols []uint32) scope {
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

// index tells where a prefix is: its place plus 1, at its spot or after it; 0 is free.
// There is always a free one, where a search for what is not there ends.
type index [maxShard + 1]uint16

// put notes the place (plus 1) of a prefix that is new.
func (x *index) put(prefix [apikey.PrefixLength]byte, at int) {
	i := spot(hash(prefix[:]))
	for x[i&maxShard] != 0 {
		i++
	}
	x[i&maxShard] = uint16(at)
}
