package checker

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/meter"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// snapshot is the view that requests are decided on. Requests load a pointer;
// the listeners of keys and plans take turns at replacing it.
type snapshot struct {
	view    atomic.Pointer[view.View]
	mu      sync.Mutex // of the writers only
	buckets *bucket.Buckets
	meter   *meter.Meter
}

// find gives a key's slot in the current view.
func (s *snapshot) find(p apikey.Prefix) (slot uint32, ok bool) {
	k, ok := s.view.Load().Find([]byte(p))
	return k.Slot(), ok
}

// setKeys replaces the view. There is room for the slots of new keys, and what
// was counted of those keys elsewhere is known, before a request can see them.
func (s *snapshot) setKeys(reset bool, changes []view.KeyChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.view.Load()
	next := old.WithKeys(reset, changes)
	fresh := map[apikey.Prefix]uint32{}
	for _, c := range changes {
		if k, ok := next.Find([]byte(c.Prefix)); ok && k.Slot() >= old.Slots() {
			fresh[c.Prefix] = k.Slot()
		}
	}
	s.buckets.Grow(next.Slots())
	s.meter.Publish(next.Slots(), fresh, func() { s.view.Store(next) })
}

// setPlans replaces the view.
func (s *snapshot) setPlans(reset bool, changes []view.PlanChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.Store(s.view.Load().WithPlans(reset, changes))
}

// keyReceiver takes in keys.
type keyReceiver struct {
	*snapshot
	*life
	*unreadable

	echo func([]store.Canary)
}

// Receive applies a batch and then counts its canaries: what came with them is in the view.
func (r keyReceiver) Receive(b store.Batch[apikey.Key]) error {
	takeIn(r.unreadable, b)
	if b.Reset || len(b.Changes) > 0 {
		changes := make([]view.KeyChange, 0, len(b.Changes))
		for i := range b.Changes {
			c := &b.Changes[i]
			if prefix, ok := apikey.ID(c.ID).Prefix(); ok { // else it is no key of ours
				changes = append(changes, view.KeyChange{Prefix: prefix, Gone: c.Gone, Key: &c.Value})
			}
		}
		r.setKeys(b.Reset, changes)
	}
	r.synced()
	r.echo(b.Canaries)
	return nil
}

// Len is how many keys there are.
func (r keyReceiver) Len() int { return r.view.Load().Keys() }

// planReceiver takes in plans.
type planReceiver struct {
	*snapshot
	*life
	*unreadable

	echo func([]store.Canary)
}

// Receive applies a batch and then counts its canaries.
func (r planReceiver) Receive(b store.Batch[plan.Plan]) error {
	takeIn(r.unreadable, b)
	if b.Reset || len(b.Changes) > 0 {
		changes := make([]view.PlanChange, 0, len(b.Changes))
		for _, c := range b.Changes {
			changes = append(changes, view.PlanChange{Document: c.ID, Gone: c.Gone, Limits: c.Value.Limits})
		}
		r.setPlans(b.Reset, changes)
	}
	r.synced()
	r.echo(b.Canaries)
	return nil
}

// Len is how many plans there are.
func (r planReceiver) Len() int { return r.view.Load().Plans() }

// counterReceiver takes in counters.
type counterReceiver struct {
	*meter.Meter
	*life
	*unreadable

	echo func([]store.Canary)
}

// Receive applies a batch and then counts its canaries.
func (r counterReceiver) Receive(b store.Batch[usage.Counter]) error {
	takeIn(r.unreadable, b)
	if err := r.Meter.Receive(b); err != nil {
		return err
	}
	r.synced()
	r.echo(b.Canaries)
	return nil
}

// unreadable are the documents of a collection that are none of Sluice's, or are
// damaged: other fields, other types, the id of another one. They open nothing, and
// they keep nothing else from being heard. Each is logged once. Only the listener of
// the collection uses it, apart from count.
type unreadable struct {
	what  store.CanaryType
	log   *slog.Logger
	ids   map[string]bool
	count atomic.Int64
}

// takeIn notes which documents of a batch cannot be read.
func takeIn[T any](u *unreadable, b store.Batch[T]) {
	before := u.ids
	if b.Reset || u.ids == nil {
		u.ids = map[string]bool{}
	}
	for _, c := range b.Changes {
		if c.Err == nil {
			delete(u.ids, c.ID)
			continue
		}
		if !before[c.ID] {
			u.log.Error("unreadable document opens nothing", "collection", string(u.what), "id", c.ID, "error", c.Err)
		}
		u.ids[c.ID] = true
	}
	u.count.Store(int64(len(u.ids)))
}
