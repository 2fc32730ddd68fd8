// Package view is the checker's picture of all keys and plans: immutable, so
// that readers need no lock, and cheap to change, so that a revocation among a
// million keys is there in microseconds.
//
// Keys lie in shards by a hash of their prefix. A change copies the shards it
// touches (a few hundred keys each) and the array of pointers to them, and shares
// everything else with the view before. Shards hold their keys in a few flat
// slices without pointers: the garbage collector sees thousands of objects, not
// millions. Plans lie in one slice; a key knows its plan's place in it, so a
// changed plan is one changed element for all of its keys.
//
// A View is a value that the rest of the checker only reads; the With functions
// give a new one.
package view

import (
	"iter"
	"slices"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// View is one picture of keys and plans. The zero View is empty and ready.
type View struct {
	shards  []*shard // by hash; a power of two long, nil where there are no keys
	keys    int      // how many there are
	slots   uint32   // slots given out so far
	book    *slotBook
	plans   planTable
	symbols symbolTable
}

// Key is what a look-up finds.
type Key struct {
	*entry
	shard *shard
	view  *View
}

// Limits are a plan's, prepared for the check.
type Limits struct {
	Bucket bucket.Shape
	Quota  int64 // 0 is none
	Hard   bool  // the quota is never exceeded
	Period plan.Period
	Unsaid uint64 // what a replica can allow before it is heard of through the store
}

// Keys is how many keys the view holds.
func (v *View) Keys() int { return v.keys }

// Plans is how many plans the view holds.
func (v *View) Plans() int { return v.plans.defined }

// Slots is how many slots have been given out: every key's slot is below it.
func (v *View) Slots() uint32 { return v.slots }

// Find looks a key up by its prefix. Where there is none, ok is false and the
// Key is one that opens nothing, so that a caller can take the same path.
func (v *View) Find(prefix []byte) (k Key, ok bool) {
	if len(v.shards) > 0 && len(prefix) == apikey.PrefixLength {
		h := hash(prefix)
		if s := v.shards[h&uint64(len(v.shards)-1)]; s != nil {
			if e := s.find(h, prefix); e != nil {
				return Key{entry: e, shard: s, view: v}, true
			}
		}
	}
	return Key{entry: &nobody, shard: &empty, view: v}, false
}

// HardQuotas are the keys whose quota is never to be exceeded.
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

// Prefix names the key.
func (k Key) Prefix() apikey.Prefix { return apikey.Prefix(k.prefix[:]) }

// Slot is the key's place in the tables of buckets and counters.
func (k Key) Slot() uint32 { return k.slot }

// Active tells whether the key's status lets it be used.
func (k Key) Active() bool { return k.more&isActive != 0 }

// ExpiresAt is in nanoseconds since the Unix epoch; the largest number is never.
func (k Key) ExpiresAt() int64 { return k.expires }

// Matches tells whether hash is that of a secret of the key that is valid at
// now (nanoseconds since the Unix epoch). Both secrets are compared every time.
func (k Key) Matches(h apikey.Hash, now int64) bool {
	current := k.secret.Equal(h)
	before := k.shard.before(k.entry)
	previous := before.secret.Equal(h) && now < before.until
	return current || previous
}

// In tells whether the key is of a namespace.
func (k Key) In(namespace string) bool { return k.view.plans.at(k.plan).namespace == namespace }

// Covers tells whether the key is of this namespace and its scope holds the app.
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

// HeaderName is the key's display name as a header value, "" when it has none.
func (k Key) HeaderName() string { return k.shard.name(k.entry) }

// Apps are the apps of the key's scope, none for all of its environment.
func (k Key) Apps() []string {
	var one [1]uint32
	apps := []string{}
	for _, s := range k.shard.apps(k.entry, &one) {
		apps = append(apps, k.view.symbols.text(s))
	}
	return apps
}

// Plan is what the key's holder may be told of its plan, once [Key.Limits] are known. It is
// not to be changed.
func (k Key) Plan() *Plan { return &k.view.plans.told[k.plan] }

// Limits gives the key's plan's; ok is false while the plan is not known.
func (k Key) Limits() (l Limits, ok bool) {
	p := k.view.plans.at(k.plan)
	return p.limits, p.defined
}
