package view

import (
	"math"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
)

// KeyChange is a changed or deleted key.
type KeyChange struct {
	Prefix apikey.Prefix
	Gone   bool
	Key    *apikey.Key // nil if Gone
}

// WithKeys returns v with the changes applied in their order. If reset is true, the changes are
// all keys.
func (v *View) WithKeys(reset bool, changes []KeyChange) *View {
	for size := 1; ; size *= 2 {
		if next, ok := v.withKeys(reset, changes, size); ok {
			if reset {
				next.markMissing(v)
			}
			next.slots = next.book.next
			return next
		}
	}
}

func (v *View) markMissing(before *View) {
	for _, s := range before.shards {
		for i := range s.keys() {
			e := &s.entries[i]
			if _, ok := v.Find(e.prefix[:]); !ok {
				v.book.markGone(apikey.Prefix(e.prefix[:]), e.slot)
			}
		}
	}
}

// withKeys returns false if size shards are too few.
func (v *View) withKeys(reset bool, changes []KeyChange, size int) (*View, bool) {
	next := *v
	if next.book == nil {
		next.book = &slotBook{}
	}
	next.shards, next.keys = nil, 0
	if !reset {
		next.shards, next.keys = slices.Clone(v.shards), v.keys
	}
	next.symbols = v.symbols.edit()
	next.plans = v.plans.edit()
	if !next.spread(next.keys+len(changes), size) {
		return nil, false
	}
	for at, group := range next.byShard(changes) {
		before := next.shards[at]
		after, ok := next.change(v, before, changes, group)
		if !ok {
			return nil, false
		}
		next.keys += len(after) - before.keys()
		next.shards[at] = pack(after)
	}
	return &next, true
}

// spread distributes the keys over enough shards for n keys, at least size. It returns false if
// size is too small.
func (v *View) spread(n, size int) bool {
	old := v.shards
	size = max(size, len(old))
	for size*meanShard < n {
		size *= 2
	}
	if size == len(old) {
		return true
	}
	v.shards = make([]*shard, size)
	parts := make([][]record, size)
	for at, s := range old {
		for _, r := range s.records() {
			to := hash(r.prefix[:]) % uint64(size)
			parts[to] = append(parts[to], r)
		}
		for to := at; to < size; to += len(old) {
			if len(parts[to]) > maxShard {
				return false
			}
			v.shards[to], parts[to] = pack(parts[to]), nil
		}
	}
	return true
}

func (v *View) byShard(changes []KeyChange) map[uint64][]int {
	groups := map[uint64][]int{}
	for i, c := range changes {
		if len(c.Prefix) == apikey.PrefixLength {
			at := hash([]byte(c.Prefix)) % uint64(len(v.shards))
			groups[at] = append(groups[at], i)
		}
	}
	return groups
}

// change returns the changed records of a shard, or false if it is full. A key of the old view
// keeps its slot, even after a reset.
func (v *View) change(old *View, s *shard, changes []KeyChange, places []int) ([]record, bool) {
	d := s.draft()
	for _, i := range places {
		c := &changes[i]
		r := d.find([]byte(c.Prefix))
		switch {
		case c.Gone && r != nil && !r.gone:
			r.gone = true
			v.book.markGone(c.Prefix, r.slot)
		case c.Gone:
		case r != nil && r.gone:
			*r = v.record(c.Key, v.book.slotOf(c.Prefix))
		case r != nil:
			*r = v.record(c.Key, r.slot)
		case !d.add(v.record(c.Key, v.slotOf(old, c.Prefix))):
			return nil, false
		}
	}
	return slices.DeleteFunc(d.records, func(r record) bool { return r.gone }), true
}

func (v *View) slotOf(old *View, p apikey.Prefix) uint32 {
	if k, ok := old.Find([]byte(p)); ok {
		return k.Slot()
	}
	return v.book.slotOf(p)
}

func (v *View) record(k *apikey.Key, slot uint32) record {
	name := planName(k.Namespace, k.Plan)
	r := record{
		entry: entry{
			secret:  k.Secret,
			expires: math.MaxInt64,
			slot:    slot,
			plan:    v.plans.indexOf(name, k.Environment),
		},
		name: apikey.HeaderName(k.Name),
	}
	if !k.ExpiresAt.IsZero() {
		r.expires = Nanos(k.ExpiresAt)
	}
	// A namespace with a "." is ambiguous in the plan's name, so its keys are rejected.
	if k.Status == apikey.Active && namespaceOf(name) == k.Namespace {
		r.more = isActive
	}
	copy(r.prefix[:], k.Prefix)
	for _, a := range k.Apps {
		r.scope = append(r.scope, v.symbols.id(a))
	}
	if !k.PreviousUntil.IsZero() {
		r.previous = &previous{secret: k.Previous, until: Nanos(k.PreviousUntil)}
	}
	return r
}

// Nanos returns t in Unix nanoseconds: 0 before 1970, and [math.MaxInt64] from 2262 on.
func Nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	}
	return t.UnixNano()
}
