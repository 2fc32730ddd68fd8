package view

import (
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
)

// slotRest is the time that a slot rests after its key disappeared. Requests that are in
// progress may still use it.
const slotRest = time.Hour

// slotBook assigns slots to keys. A key that disappears keeps its slot until another key gets
// it, so its counts and its bucket are there when it comes back. Only the writer of views
// uses it; all views that descend from one share it.
type slotBook struct {
	next    uint32 // slots given out so far
	free    []uint32
	gone    map[apikey.Prefix]goneKey
	waiting []apikey.Prefix // of gone, in the order of their disappearance; some are back
}

type goneKey struct {
	slot uint32
	at   time.Time // when [View.FreeSlots] first saw it gone; zero before
}

// slotOf returns the slot of a key that appears: its previous one, if it has one.
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

// leave notes that a key has disappeared.
func (b *slotBook) leave(p apikey.Prefix, slot uint32) {
	if b.gone == nil {
		b.gone = map[apikey.Prefix]goneKey{}
	}
	b.gone[p] = goneKey{slot: slot}
	b.waiting = append(b.waiting, p)
}

// FreeSlots frees slots of keys that disappeared an hour ago or earlier, for new keys.
// release prepares a slot for another key, or reports that it still holds counts.
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
