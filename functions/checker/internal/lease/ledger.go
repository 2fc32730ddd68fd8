package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/spent"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	// handover is the time for which a replica with a shortage waits for its peers before it
	// reports the quota as used up.
	handover = time.Second

	// Limits of the backoff: after a failed write, and while the quota is fully leased.
	firstPause  = 100 * time.Millisecond
	failedPause = 5 * time.Second
	emptyPause  = time.Minute
)

// ledger belongs to the write in progress, and to the reconciler while there is none.
type ledger struct {
	writing atomic.Bool

	loaded    bool
	held      int64 // spent and unspent; never more than in the store
	uncertain bool  // the result of the last write is unknown
	sample    sample

	recordSlot spent.Record
	hasRecord  bool

	shortSince time.Time
	retryAt    time.Time
	backoff    time.Duration
}

func newHolding(period usage.QuotaPeriod, quota int64, now time.Time) *holding {
	began, ends := period.Span()
	h := &holding{QuotaPeriod: period, begins: began.UnixNano(), ends: ends.UnixNano(), ledger: ledger{sample: sample{at: now}}}
	h.quota.Store(quota)
	h.recorded = &h.unrecorded
	return h
}

func (h *holding) ended(now time.Time) bool { return now.UnixNano() >= h.ends }

func (h *holding) spent() int64 { return h.held - h.unspent.Load() }

// trim removes all unspent requests beyond n from memory and reports whether there were any. The
// next write releases them.
func (h *holding) trim(n int64) bool {
	for {
		unspent := h.unspent.Load()
		if unspent <= n {
			return false
		}
		if h.unspent.CompareAndSwap(unspent, n) {
			h.held -= unspent - n
			h.uncertain = true
			return true
		}
	}
}

type writeResult struct {
	added int64
	free  int64 // held by no process
}

// write stores the holding. target returns the desired number of unspent requests, given the
// number that no other process holds.
func (h *holding) write(ctx context.Context, b *Manager, quota int64, target func(free int64) int64) (result writeResult, err error) {
	lapses := b.lapses.Load()
	force := h.uncertain || h.lapses.Load() != lapses // earlier writes, or a release by another process, can then no longer land
	err = b.cfg.Store.Lease(ctx, h.QuotaPeriod, b.cfg.Run, force, func(own, others int64) int64 {
		if !h.loaded { // own may be spent already, by an earlier holding of this process
			h.loaded, h.held = true, own
			b.addRecord(h)
		}
		if own < h.held {
			h.trim(0)
		}
		unspent := h.unspent.Load()
		free := max(quota-others-h.held, 0)
		added := min(max(target(free+unspent)-unspent, 0), free)
		result = writeResult{added: added, free: free - added}
		return h.held + added
	})
	if err != nil {
		h.uncertain = true
		return writeResult{}, err
	}
	h.uncertain = false
	h.held += result.added
	h.unspent.Add(result.added)
	h.lapses.Store(lapses)
	return result, nil
}

func (h *holding) backOff(now time.Time, longest time.Duration) {
	h.backoff = min(max(2*h.backoff, firstPause), longest)
	h.retryAt = now.Add(h.backoff)
}

func (h *holding) resetBackoff() { h.backoff, h.retryAt = 0, time.Time{} }
