package view

import (
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
)

// slotRest is the time for which a slot is not reused, because requests in progress may still
// use it.
const slotRest = time.Hour

// slotBook assigns slots to keys. A key that is removed and added again gets its previous slot, and
// thus its counts and bucket, unless another key has the slot. Only the writer of views uses it.
type slotBook struct {
	next    uint32
	free    []uint32
	gone    map[apikey.Prefix]goneKey
	waiting []apikey.Prefix // keys of gone, in order of removal, and keys that have returned
}

type goneKey struct {
	slot uint32
	at   time.Time // first [View.FreeSlots] after the key disappeared
}

func (b *slotBook) slotOf(p apikey.Prefix) uint32 {
	if k, ok := b.gone[p]; ok {
		delete(b.gone, p)
		return k.slot
	}
	if n := len(b.free); n > 0 {
		slot := b.free[n-1]
		b.free = b.free[:n-1]
		return slot
	}
	b.next++
	return b.next - 1
}

func (b *slotBook) markGone(p apikey.Prefix, slot uint32) {
	if b.gone == nil {
		b.gone = map[apikey.Prefix]goneKey{}
	}
	b.gone[p] = goneKey{slot: slot}
	b.waiting = append(b.waiting, p)
}

// FreeSlots frees the slots of keys that disappeared at least an hour ago. release prepares a
// slot for another key, or returns false if it still holds counts.
func (v *View) FreeSlots(now time.Time, release func(slot uint32) bool) {
	b := v.book
	if b == nil {
		return
	}
	for i := len(b.waiting) - 1; i >= 0; i-- { // the latest ones have no time yet
		k, ok := b.gone[b.waiting[i]]
		if ok && !k.at.IsZero() {
			break
		}
		if ok {
			k.at = now
			b.gone[b.waiting[i]] = k
		}
	}
	for len(b.waiting) > 0 {
		p := b.waiting[0]
		k, ok := b.gone[p]
		if ok && (now.Sub(k.at) < slotRest || !release(k.slot)) {
			return
		}
		if ok {
			delete(b.gone, p)
			b.free = append(b.free, k.slot)
		}
		b.waiting = b.waiting[1:]
	}
}
