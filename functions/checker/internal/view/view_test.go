package view

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

func key(prefix, namespace string, apps ...string) apikey.Key {
	return apikey.Key{
		Prefix: apikey.Prefix(prefix), Namespace: namespace, Plan: "plan-a", Apps: apps,
		Status: apikey.Active, Secret: apikey.HashOf([]byte(prefix)), Name: "name of " + prefix,
	}
}

func put(k apikey.Key) KeyChange { return KeyChange{Prefix: k.Prefix, Key: &k} }

func TestViewMatchesMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prefixes := rapid.SliceOfNDistinct(rapid.StringMatching(`[0-9a-z]{8}`), 1, 40, rapid.ID[string]).Draw(t, "prefixes")
		v, model, slots := &View{}, map[apikey.Prefix]apikey.Key{}, map[apikey.Prefix]uint32{}
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			reset := rapid.IntRange(0, 4).Draw(t, "reset") == 0
			if reset {
				clear(model)
			}
			var changes []KeyChange
			for range rapid.IntRange(0, 30).Draw(t, "changes") {
				k := key(rapid.SampledFrom(prefixes).Draw(t, "prefix"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "ns"),
					rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), rapid.ID[string]).Draw(t, "apps")...)
				k.Name = rapid.SampledFrom([]string{"", "n", "näme"}).Draw(t, "name")
				if rapid.Bool().Draw(t, "rotated") {
					k.Previous, k.PreviousUntil = apikey.HashOf([]byte("old"+k.Prefix)), time.Unix(100, 0)
				}
				c := KeyChange{Prefix: k.Prefix, Key: &k, Gone: rapid.IntRange(0, 3).Draw(t, "gone") == 0}
				changes = append(changes, c)
				delete(model, k.Prefix)
				if !c.Gone {
					model[k.Prefix] = k
				}
			}
			v = v.WithKeys(reset, changes)
			compare(t, v, prefixes, model, slots)
		}
	})
}

func compare(t *rapid.T, v *View, prefixes []string, model map[apikey.Prefix]apikey.Key, slots map[apikey.Prefix]uint32) {
	if v.Keys() != len(model) {
		t.Fatalf("keys: got %d, want %d", v.Keys(), len(model))
	}
	taken := map[uint32]bool{}
	for _, p := range prefixes {
		want, there := model[apikey.Prefix(p)]
		got, ok := v.Find([]byte(p))
		if ok != there {
			t.Fatalf("%s: found: got %v, want %v", p, ok, there)
		}
		if !there {
			if got.Active() || got.ExpiresAt() != math.MinInt64 {
				t.Fatalf("a missing key is active or has an expiry")
			}
			delete(slots, apikey.Prefix(p))
			continue
		}
		if s, known := slots[want.Prefix]; known && s != got.Slot() {
			t.Fatalf("%s moved from slot %d to %d", p, s, got.Slot())
		}
		slots[want.Prefix] = got.Slot()
		if taken[got.Slot()] || got.Slot() >= v.Slots() {
			t.Fatalf("slot %d belongs to another key, or is not below %d", got.Slot(), v.Slots())
		}
		taken[got.Slot()] = true
		checkFields(t, got, want)
	}
}

func checkFields(t *rapid.T, got Key, want apikey.Key) {
	if got.HeaderName() != apikey.HeaderName(want.Name) {
		t.Fatalf("name: got %q, want %q", got.HeaderName(), want.Name)
	}
	for _, ns := range []string{"a", "b"} {
		for _, app := range []string{"x", "y", "z", "other"} {
			inScope := len(want.Apps) == 0
			for _, a := range want.Apps {
				inScope = inScope || a == app
			}
			if got.Covers(ns, app) != (ns == want.Namespace && inScope) {
				t.Fatalf("covers %s/%s: got %v", ns, app, got.Covers(ns, app))
			}
		}
	}
	rotated := !want.PreviousUntil.IsZero()
	old := apikey.HashOf([]byte("old" + want.Prefix))
	before, after := time.Unix(100, 0).UnixNano()-1, time.Unix(100, 0).UnixNano()
	if !got.Matches(want.Secret, after) || got.Matches(old, before) != rotated || got.Matches(old, after) || got.Matches(apikey.Hash{}, before) {
		t.Fatalf("wrong secrets of %s are accepted or right ones rejected", want.Prefix)
	}
}

func TestImmutable(t *testing.T) {
	t.Parallel()
	first := (&View{}).WithKeys(true, []KeyChange{put(key("aaaaaaaa", "ns"))})
	left := first.WithKeys(false, []KeyChange{put(key("bbbbbbbb", "left"))})
	right := first.WithKeys(false, []KeyChange{put(key("cccccccc", "right"))})
	if _, ok := first.Find([]byte("bbbbbbbb")); ok || first.Keys() != 1 {
		t.Error("the first view contains a later change")
	}
	l, _ := left.Find([]byte("bbbbbbbb"))
	r, _ := right.Find([]byte("cccccccc"))
	if !l.Covers("left", "x") || !r.Covers("right", "x") {
		t.Error("a change of one view affects another")
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	limits := func(v *View) (Limits, bool) {
		k, _ := v.Find([]byte("aaaaaaaa"))
		return k.Limits()
	}
	v := (&View{}).WithKeys(true, []KeyChange{put(key("aaaaaaaa", "ns"))})
	if _, ok := limits(v); ok {
		t.Error("an undefined plan has limits")
	}
	v = v.WithPlans(true, []PlanChange{{Document: "ns.plan-a", Limits: plan.Limits{Rate: 1, Burst: 1, Quota: 5, Period: plan.Day}}})
	if l, ok := limits(v); !ok || l.Quota != 5 || v.Plans() != 1 {
		t.Errorf("limits: got %v, %v", l, ok)
	}
	changed := v.WithPlans(false, []PlanChange{{Document: "ns.plan-a", Limits: plan.Limits{Rate: 1, Burst: 1}}})
	if l, _ := limits(changed); l.Quota != 0 {
		t.Error("the key has the old limits")
	}
	if l, _ := limits(v); l.Quota != 5 {
		t.Error("the change affects the previous view")
	}
	if _, ok := limits(changed.WithPlans(false, []PlanChange{{Document: "ns.plan-a", Gone: true}})); ok {
		t.Error("a deleted plan has limits")
	}
	if v := changed.WithPlans(true, nil); v.Plans() != 0 {
		t.Error("a plan remains after a reset")
	}
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	v, all := &View{}, []KeyChange{}
	for i := range 3_000 {
		all = append(all, put(key(fmt.Sprintf("%08d", i), "ns")))
		shards := len(v.shards)
		v = v.WithKeys(false, all[i:])
		if len(v.shards) != shards {
			holds(t, v, all)
		}
	}
	if len(v.shards)*meanShard < len(all) {
		t.Errorf("%d shards for %d keys", len(v.shards), len(all))
	}
	holds(t, v, all)
	holds(t, (&View{}).WithKeys(false, all), all)
	holds(t, v.WithKeys(true, all[:10]), all[:10])
}

func TestCrowdedShard(t *testing.T) {
	t.Parallel()
	var all []KeyChange
	for i := 0; len(all) <= maxShard; i++ {
		if p := fmt.Sprintf("%08d", i); hash([]byte(p))%4 == 0 {
			all = append(all, put(key(p, "ns")))
		}
	}
	holds(t, (&View{}).WithKeys(false, all), all)
	one := (&View{}).WithKeys(false, all[:maxShard])
	holds(t, one.WithKeys(false, all[maxShard:]), all)
}

func holds(t *testing.T, v *View, all []KeyChange) {
	t.Helper()
	if v.Keys() != len(all) {
		t.Fatalf("keys: got %d, want %d", v.Keys(), len(all))
	}
	for _, c := range all {
		if k, ok := v.Find([]byte(c.Prefix)); !ok || !k.Matches(c.Key.Secret, 0) || k.HeaderName() != c.Key.Name {
			t.Fatalf("%s is missing or wrong", c.Prefix)
		}
	}
}

func TestAmbiguousNamespace(t *testing.T) {
	t.Parallel()
	k := key("aaaaaaaa", "a.b")
	v := (&View{}).WithKeys(true, []KeyChange{put(k)})
	if got, _ := v.Find([]byte(k.Prefix)); got.Active() {
		t.Error("a key with an ambiguous namespace is active")
	}
}

func million(n int) *View {
	changes := make([]KeyChange, n)
	for i := range changes {
		changes[i] = put(key(fmt.Sprintf("%08d", i), "ns"))
	}
	return (&View{}).WithKeys(true, changes).WithPlans(true, []PlanChange{{Document: "ns.plan-a", Limits: plan.Limits{Rate: 1e5, Burst: 1e6}}})
}

func BenchmarkChange(b *testing.B) {
	v := million(1_000_000)
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		fresh := put(key("zzzzzzzz", "ns"))
		for b.Loop() {
			v.WithKeys(false, []KeyChange{fresh})
		}
	})
	b.Run("revoke", func(b *testing.B) {
		b.ReportAllocs()
		revoked := KeyChange{Prefix: "00000007", Gone: true}
		for b.Loop() {
			v.WithKeys(false, []KeyChange{revoked})
		}
	})
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		change := []PlanChange{{Document: "ns.plan-a", Limits: plan.Limits{Rate: 1, Burst: 1}}}
		for b.Loop() {
			v.WithPlans(false, change)
		}
	})
}

func TestSlotOfAReturningKey(t *testing.T) {
	t.Parallel()
	slot := func(v *View, prefix string) uint32 {
		t.Helper()
		k, ok := v.Find([]byte(prefix))
		if !ok {
			t.Fatalf("the view lacks %s", prefix)
		}
		return k.Slot()
	}
	one, two, three := put(key("aaaaaaaa", "ns")), put(key("bbbbbbbb", "ns")), put(key("cccccccc", "ns"))
	gone := KeyChange{Prefix: "aaaaaaaa", Gone: true}
	v := (&View{}).WithKeys(true, []KeyChange{one, two})
	first := slot(v, "aaaaaaaa")
	for reset, changes := range map[bool][]KeyChange{false: {gone}, true: {two}} {
		v = v.WithKeys(reset, changes).WithKeys(false, []KeyChange{three})
		if got := slot(v, "cccccccc"); got == first {
			t.Error("another key has the slot of a key that has just disappeared")
		}
		v = v.WithKeys(false, []KeyChange{one})
		if got := slot(v, "aaaaaaaa"); got != first {
			t.Errorf("slot of a returned key: got %d, want %d", got, first)
		}
	}

	now := time.Unix(0, 0)
	v = v.WithKeys(false, []KeyChange{gone})
	for _, tt := range []struct {
		after time.Duration
		idle  bool
		freed bool
	}{{0, true, false}, {slotRest - 1, true, false}, {slotRest, false, false}, {slotRest, true, true}, {2 * slotRest, true, false}} {
		freed := false
		v.FreeSlots(now.Add(tt.after), func(slot uint32) bool {
			freed = tt.idle && slot == first
			return tt.idle
		})
		if freed != tt.freed {
			t.Errorf("%s later, idle %v: freed is %v, want %v", tt.after, tt.idle, freed, tt.freed)
		}
	}
	v = v.WithKeys(false, []KeyChange{put(key("dddddddd", "ns"))})
	if got := slot(v, "dddddddd"); got != first {
		t.Errorf("slot of a new key: got %d, want the free slot %d", got, first)
	}
	slots := v.Slots()
	if v = v.WithKeys(false, []KeyChange{one}); slot(v, "aaaaaaaa") != slots {
		t.Errorf("slot of a key without its previous slot: got %d, want a new one", slot(v, "aaaaaaaa"))
	}
}

func TestIndicesOfDeletedPlans(t *testing.T) {
	t.Parallel()
	l := plan.Limits{Rate: 1, Burst: 1, Quota: 5, Period: plan.Day}
	v := (&View{}).WithKeys(true, []KeyChange{put(key("aaaaaaaa", "ns"))}) // plan-a is not defined yet
	for i := range 3 * minSweep {
		document := fmt.Sprintf("ns.plan-%d", i)
		v = v.WithPlans(false, []PlanChange{{Document: document, Limits: l}})
		v = v.WithPlans(false, []PlanChange{{Document: document, Gone: true}})
	}
	if n := len(v.plans.rows); n > 2*minSweep {
		t.Errorf("indices of deleted plans: got %d", n)
	}
	v = v.WithPlans(false, []PlanChange{{Document: "ns.plan-a", Limits: l}})
	k, _ := v.Find([]byte("aaaaaaaa"))
	if got, ok := k.Limits(); !ok || got.Quota != 5 || k.Plan().ID != "plan-a" || !k.In("ns") {
		t.Errorf("limits: got %v, %v of %s", got, ok, k.Plan().ID)
	}
	other := v.WithPlans(false, []PlanChange{{Document: "ns.plan-b", Limits: plan.Limits{Rate: 2, Burst: 2}}})
	if got, _ := k.Limits(); got.Quota != 5 || other.Plans() != 2 {
		t.Errorf("another plan changed the key's: %v", got)
	}
}
