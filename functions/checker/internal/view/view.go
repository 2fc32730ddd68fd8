// Package view is the checker's immutable view of all keys and plans. Readers need no lock, and
// a change among a million keys takes microseconds.
//
// Keys are in shards by a hash of their prefix. A change copies the affected shards (a few
// hundred keys each) and shares the rest with the previous view. A shard stores its keys in a few
// slices without pointers, so the garbage collector scans thousands of objects, not millions. A
// key stores the index of its plan, so a changed plan is one changed element.
package view

import (
	"iter"
	"slices"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// View is an immutable set of keys and plans. The zero View is empty.
type View struct {
	shards  []*shard // a power of two; empty shards are nil
	keys    int
	slots   uint32
	book    *slotBook
	plans   planTable
	symbols symbolTable
}

// Key is the result of a lookup.
type Key struct {
	*entry
	shard *shard
	view  *View
}

// Limits are the limits of a plan as decisions need them.
type Limits struct {
	Bucket bucket.Params
	Quota  int64 // 0 for none
	Hard   bool
	Period plan.Period
	Unsaid uint64 // maximum number of requests that a replica allows before the store delivers its counts
}

// Keys returns the number of keys.
func (v *View) Keys() int { return v.keys }

// Plans returns the number of defined plans.
func (v *View) Plans() int { return v.plans.defined }

// Slots returns the number of assigned slots. Every key's slot is below it.
func (v *View) Slots() uint32 { return v.slots }

// Find returns the key with a prefix. If ok is false, k is a key that is always rejected, so
// that callers can do the same work for it.
func (v *View) Find(prefix []byte) (k Key, ok bool) {
	if len(v.shards) > 0 && len(prefix) == apikey.PrefixLength {
		h := hash(prefix)
		if s := v.shards[h&uint64(len(v.shards)-1)]; s != nil {
			if e := s.find(h, prefix); e != nil {
				return Key{entry: e, shard: s, view: v}, true
			}
		}
	}
	return Key{entry: &noEntry, shard: &emptyShard, view: v}, false
}

// HardQuotas returns the keys with a hard quota.
func (v *View) HardQuotas() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		if !slices.ContainsFunc(v.plans.rows, func(p planRow) bool { return p.limits.Hard }) {
			return
		}
		for _, s := range v.shards {
			for i := range s.keys() {
				e := &s.entries[i]
				if v.plans.at(e.plan).limits.Hard && !yield(Key{entry: e, shard: s, view: v}) {
					return
				}
			}
		}
	}
}

// Prefix returns the key's prefix.
func (k Key) Prefix() apikey.Prefix { return apikey.Prefix(k.prefix[:]) }

// Slot returns the key's index in the tables of buckets and counters.
func (k Key) Slot() uint32 { return k.slot }

// Active reports whether the key's status allows its use.
func (k Key) Active() bool { return k.more&isActive != 0 }

// ExpiresAt returns the expiry in Unix nanoseconds, or [math.MaxInt64] if there is none.
func (k Key) ExpiresAt() int64 { return k.expires }

// Matches reports whether h is the hash of a secret that is valid at now, in Unix nanoseconds.
// It always compares both secrets.
func (k Key) Matches(h apikey.Hash, now int64) bool {
	current := k.secret.Equal(h)
	old := k.shard.previousSecret(k.entry)
	previous := old.secret.Equal(h) && now < old.until
	return current || previous
}

// In reports whether the key belongs to a namespace.
func (k Key) In(namespace string) bool { return k.view.plans.at(k.plan).namespace == namespace }

// Covers reports whether the key belongs to the namespace and its scope includes the app.
func (k Key) Covers(namespace, app string) bool {
	if !k.In(namespace) {
		return false
	}
	var one [1]uint32
	apps := k.shard.apps(k.entry, &one)
	for _, s := range apps {
		if k.view.symbols.text(s) == app {
			return true
		}
	}
	return len(apps) == 0
}

// HeaderName returns the key's display name as a header value, or "".
func (k Key) HeaderName() string { return k.shard.name(k.entry) }

// Apps returns the apps of the key's scope, or none for all apps.
func (k Key) Apps() []string {
	var one [1]uint32
	apps := []string{}
	for _, s := range k.shard.apps(k.entry, &one) {
		apps = append(apps, k.view.symbols.text(s))
	}
	return apps
}

// Plan returns the key's plan, which callers must not change. Its limits must be known.
func (k Key) Plan() *Plan { return &k.view.plans.info[k.plan] }

// Limits returns the limits of the key's plan. ok is false if the plan is not in the view.
func (k Key) Limits() (l Limits, ok bool) {
	p := k.view.plans.at(k.plan)
	return p.limits, p.defined
}
