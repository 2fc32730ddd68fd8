package checker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/lease"
	"github.com/sluicegate/sluice/functions/checker/internal/meter"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
)

// snapshot is the current view. Requests load it without a lock.
type snapshot struct {
	atomic.Pointer[view.View]

	now            func() time.Time
	mu             sync.Mutex // guards replacing the view
	buckets        *bucket.Buckets
	keyInfoBuckets *bucket.Buckets
	meter          *meter.Meter
	leases         *lease.Manager
}

func (s *snapshot) find(p apikey.Prefix) (slot uint32, ok bool) {
	k, ok := s.Load().Find([]byte(p))
	return k.Slot(), ok
}

func (s *snapshot) shape(p apikey.Prefix) (slot uint32, shape bucket.Params, ok bool) {
	k, ok := s.Load().Find([]byte(p))
	if !ok {
		return 0, bucket.Params{}, false
	}
	l, ok := k.Limits()
	return k.Slot(), l.Bucket, ok
}

// setKeys replaces the view. Before a request can find a new key, the key's slot exists and the
// meter contains its earlier counts.
func (s *snapshot) setKeys(reset bool, changes []view.KeyChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.Load()
	old.FreeSlots(s.now(), s.release)
	next := old.WithKeys(reset, changes)
	fresh := map[apikey.Prefix]uint32{}
	for _, c := range changes {
		k, ok := next.Find([]byte(c.Prefix))
		if _, known := old.Find([]byte(c.Prefix)); ok && !known {
			fresh[c.Prefix] = k.Slot()
		}
	}
	s.buckets.Grow(next.Slots())
	s.keyInfoBuckets.Grow(next.Slots())
	s.leases.Grow(next.Slots())
	s.meter.Publish(next.Slots(), fresh, func() { s.Store(next) })
	s.leases.Changed()
}

// release prepares a slot for another key, unless the slot holds counts.
func (s *snapshot) release(slot uint32) bool {
	if !s.meter.Idle(slot) {
		return false
	}
	s.buckets.Reset(slot)
	s.keyInfoBuckets.Reset(slot)
	return true
}

func (s *snapshot) receiveKeys(b store.Batch[apikey.Key]) {
	if !b.Reset && len(b.Changes) == 0 {
		return
	}
	changes := make([]view.KeyChange, 0, len(b.Changes))
	for i := range b.Changes {
		c := &b.Changes[i]
		if prefix, ok := apikey.ID(c.ID).Prefix(); ok {
			changes = append(changes, view.KeyChange{Prefix: prefix, Gone: c.Gone, Key: &c.Value})
		}
	}
	s.setKeys(b.Reset, changes)
}

func (s *snapshot) receivePlans(b store.Batch[plan.Plan]) {
	if !b.Reset && len(b.Changes) == 0 {
		return
	}
	changes := make([]view.PlanChange, 0, len(b.Changes))
	for _, c := range b.Changes {
		changes = append(changes, view.PlanChange{Document: c.ID, Gone: c.Gone, Name: c.Value.Name, Limits: c.Value.Limits})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store(s.Load().WithPlans(b.Reset, changes))
	s.leases.Changed()
}
