package view

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
)

// KeyChange is a key as it now is, or that it is gone.
type KeyChange struct {
	Prefix apikey.Prefix
	Gone   bool
	Key    apikey.Key // unless Gone
}

// WithKeys gives v with changes applied in their order. With reset the changes
// are all keys there are. A key keeps its slot through changes and resets.
func (v *View) WithKeys(reset bool, changes []KeyChange) *View {
	next := *v
	next.shards = new([shardCount]*shard)
	if v.shards != nil && !reset {
		*next.shards = *v.shards
	}
	next.symbols = v.symbols.edit()
	next.plans = v.plans.edit()
	if reset {
		next.keys = 0
	}
	for at, group := range byShard(changes) {
		before := len(next.shards[at].records())
		next.shards[at] = pack(next.change(v, next.shards[at].records(), group))
		next.keys += len(next.shards[at].records()) - before
	}
	return &next
}

// byShard groups changes by shard and keeps only the last of each prefix.
func byShard(changes []KeyChange) map[uint64][]KeyChange {
	groups := map[uint64][]KeyChange{}
	for _, c := range changes {
		if len(c.Prefix) == apikey.PrefixLength {
			at := hash([]byte(c.Prefix)) % shardCount
			groups[at] = append(groups[at], c)
		}
	}
	return groups
}

// change applies a shard's changes to its records. old is the view before: a
// key that it knows keeps its slot, also when a reset has emptied the shard.
func (v *View) change(old *View, records []record, changes []KeyChange) []record {
	for _, c := range changes {
		at := slices.IndexFunc(records, func(r record) bool { return bytes.Equal(r.prefix[:], []byte(c.Prefix)) })
		switch {
		case c.Gone && at >= 0:
			records = slices.Delete(records, at, at+1)
		case c.Gone:
		case at >= 0:
			records[at] = v.record(c.Key, records[at].slot)
		default:
			records = append(records, v.record(c.Key, v.slotOf(old, c.Prefix)))
		}
	}
	return records
}

func (v *View) slotOf(old *View, p apikey.Prefix) uint32 {
	if k, ok := old.Find([]byte(p)); ok {
		return k.Slot()
	}
	v.slots++
	return v.slots - 1
}

// record turns a key into what a shard holds, naming its namespace, apps and
// plan in the view's tables.
func (v *View) record(k apikey.Key, slot uint32) record {
	r := record{
		entry: entry{
			secret:    k.Secret,
			expires:   nanos(k.ExpiresAt, math.MaxInt64),
			slot:      slot,
			namespace: v.symbols.id(k.Namespace),
			plan:      v.plans.place(planName(k.Namespace, k.Plan)),
			active:    k.Status == apikey.Active,
			revoked:   k.Status == apikey.Revoked,
		},
		name: apikey.HeaderName(k.Name),
	}
	copy(r.prefix[:], k.Prefix)
	for _, a := range k.Apps {
		r.scope = append(r.scope, v.symbols.id(a))
	}
	if !k.PreviousUntil.IsZero() {
		r.before = &previous{secret: k.Previous, until: nanos(k.PreviousUntil, math.MinInt64)}
	}
	return r
}

// nanos gives t in Unix nanoseconds; zero gives none. Times that int64 cannot
// hold (after the year 2262) are the largest there is.
func nanos(t time.Time, none int64) int64 {
	switch {
	case t.IsZero():
		return none
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	case t.Before(time.Unix(0, 0)):
		return 0
	}
	return t.UnixNano()
}
