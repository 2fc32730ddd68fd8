package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	// surveyInterval is the time between two surveys. They find keys that no request has marked.
	surveyInterval = time.Second
	minInterval    = 5 * time.Millisecond
	// shortageTTL is the time for which a peer's shortage notice counts.
	shortageTTL = 2 * time.Second
	// The quota of the next period is leased between leadTime and leadTime + leadSpread before
	// it begins. The slot decides when, so that keys do not write at the same time.
	leadTime, leadSpread = 10 * time.Second, time.Minute
	// scanFactor is the shortest interval between two scans of the view, as a multiple of a
	// scan's duration: scans take at most 5% of the time.
	scanFactor = 20

	maxWrites  = 16
	maxPending = 256

	releaseTimeout = 15 * time.Second
)

// reconciler matches the holdings with the view and the store. Only one goroutine uses it.
type reconciler struct {
	writeSlots chan struct{}
	slotNeeded atomic.Bool
	writes     sync.WaitGroup

	holdings map[usage.QuotaPeriod]*holding // of all periods that have not ended
	pending  map[uint32]bool                // slots that no request has marked

	scannedAt    time.Time
	scanDuration time.Duration
	surveyedAt   time.Time
}

// Run renews holdings until ctx ends, and then returns all unspent requests. Before it leases, it
// waits for the recovery of the pod's previous processes, for at most recoverFirst.
func (b *Manager) Run(ctx context.Context) {
	recovered := b.startRecovery(ctx)
	select {
	case <-recovered:
	case <-ctx.Done():
	case <-time.After(recoverFirst):
	}
	tick := time.NewTicker(surveyInterval / 10)
	defer tick.Stop()
	for ctx.Err() == nil {
		b.Tick(ctx, b.cfg.Now())
		reqctx.Sleep(ctx, minInterval)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-b.wakeup:
		}
	}
	<-recovered
	b.ReleaseAll(context.WithoutCancel(ctx))
}

// ReleaseAll stops all spending and returns the unspent requests. It gives up after releaseTimeout.
func (b *Manager) ReleaseAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	b.accounts.Store(&map[uint32]*account{})
	b.writes.Wait()
	all := b.endedHoldings(b.cfg.Now())
	for pause := firstPause; len(all) > 0; pause *= 2 {
		var err error
		if all, err = b.cfg.Store.EndLeases(ctx, all); err == nil {
			continue
		}
		b.failureCount.Add(1)
		if reqctx.Sleep(ctx, pause); ctx.Err() != nil {
			b.cfg.Log.Warn("release leases failed: timeout reached", "leases", len(all), "error", err)
			return
		}
	}
	b.discardFile()
}

func (b *Manager) endedHoldings(now time.Time) (all []usage.Ended) {
	for _, h := range b.holdings {
		if h.trim(0); h.loaded && !h.ended(now) {
			all = append(all, usage.Ended{QuotaPeriod: h.QuotaPeriod, Process: b.cfg.Run, Spent: h.held})
		}
	}
	return all
}

// job is a holding that may need a write. Without an account, the holding is released.
type job struct {
	*holding

	account *account
	limits  view.Limits
}

// Tick processes the marked keys and up to maxPending pending keys. It first makes a scan and a
// survey if they are due.
func (b *Manager) Tick(ctx context.Context, now time.Time) {
	if b.viewChanged.Load() && now.Sub(b.scannedAt) >= scanFactor*b.scanDuration {
		b.scanView(now)
	}
	if b.retryNow.Swap(false) {
		b.retryAll()
	}
	surveyed := now.Sub(b.surveyedAt) >= surveyInterval
	if surveyed {
		b.surveyedAt = now
		b.survey(now)
	}
	var jobs []job
	for slot := range b.dueSlots() {
		jobs = append(jobs, b.assign(slot, now)...)
	}
	if surveyed {
		jobs = append(jobs, b.releases(now)...)
	}
	b.startWrites(ctx, jobs, now)
}

func (b *Manager) dueSlots() map[uint32]bool {
	all := map[uint32]bool{}
	for slot := range b.marked.Drain() {
		all[slot] = true
		delete(b.pending, slot)
	}
	n := 0
	for slot := range b.pending {
		if n++; n > maxPending {
			break
		}
		delete(b.pending, slot)
		all[slot] = true
	}
	return all
}

// scanView finds the keys with a hard quota. All other keys stop spending immediately.
func (b *Manager) scanView(now time.Time) {
	b.viewChanged.Store(false)
	begun := b.cfg.Now()
	before, after := *b.accounts.Load(), map[uint32]*account{}
	for k := range b.cfg.View().HardQuotas() {
		a := before[k.Slot()]
		if a == nil || a.prefix != k.Prefix() {
			a = &account{slot: k.Slot(), prefix: k.Prefix()}
		}
		after[a.slot] = a
		l, _ := k.Limits()
		if h := a.at(now.UnixNano(), l.Period); h == nil || h.quota.Load() != l.Quota {
			b.pending[a.slot] = true
		}
	}
	b.accounts.Store(&after)
	for slot, a := range before {
		if after[slot] != a {
			a.setHoldings(nil, nil)
		}
	}
	b.scannedAt, b.scanDuration = now, b.cfg.Now().Sub(begun)
}

// survey finds the keys without a usable holding and those whose next period begins soon, and
// deletes the holdings of ended periods.
func (b *Manager) survey(now time.Time) {
	for slot, a := range *b.accounts.Load() {
		h := a.current.Load()
		if h != nil && h.writing.Load() {
			continue
		}
		if h == nil || !h.loaded || h.uncertain || h.ended(now) || a.next.Load() == nil && b.nextIsDue(a, h, now) {
			b.pending[slot] = true
		}
	}
	for period, h := range b.holdings {
		if h.ended(now.Add(-leadTime)) && !h.writing.Load() {
			delete(b.holdings, period)
			b.removeRecord(h)
		}
	}
}

// releases returns the holdings that no account uses and that are not empty.
func (b *Manager) releases(now time.Time) (jobs []job) {
	used := map[*holding]bool{}
	for _, a := range *b.accounts.Load() {
		used[a.current.Load()], used[a.next.Load()] = true, true
	}
	for _, h := range b.holdings {
		if !used[h] && !h.writing.Load() && !h.ended(now) && (!h.loaded || h.uncertain || h.unspent.Load() > 0) {
			jobs = append(jobs, job{holding: h})
		}
	}
	return jobs
}

func (b *Manager) nextIsDue(a *account, h *holding, now time.Time) bool {
	offset := time.Duration(a.slot) * time.Millisecond % leadSpread
	return now.Add(leadTime+offset).UnixNano() >= h.ends
}

// assign sets a key's holdings: for the current period and, shortly before it begins, for the next
// period.
func (b *Manager) assign(slot uint32, now time.Time) (jobs []job) {
	a := (*b.accounts.Load())[slot]
	if a == nil {
		return nil
	}
	k, _ := b.cfg.View().Find([]byte(a.prefix))
	l, ok := k.Limits()
	if !ok || !l.Hard {
		return nil // the next scan removes the account
	}
	h := a.at(now.UnixNano(), l.Period)
	if h == nil {
		h = b.holdingFor(usage.QuotaPeriodAt(a.prefix, l.Period, now), l, now)
	}
	next := a.next.Load()
	if next == h {
		next = nil
	}
	if next == nil && b.nextIsDue(a, h, now) {
		next = b.holdingFor(usage.QuotaPeriodAt(a.prefix, l.Period, time.Unix(0, h.ends)), l, now)
	}
	a.setHoldings(h, next)
	jobs = append(jobs, job{h, a, l})
	if next != nil {
		jobs = append(jobs, job{next, a, l})
	}
	return jobs
}

func (a *account) setHoldings(current, next *holding) {
	a.current.Store(current)
	a.next.Store(next)
}

// holdingFor reuses an earlier holding, which records the requests already spent.
func (b *Manager) holdingFor(period usage.QuotaPeriod, l view.Limits, now time.Time) *holding {
	h := b.holdings[period]
	if h == nil {
		h = newHolding(period, l.Quota, now)
		b.holdings[period] = h
	}
	return h
}

// startWrites starts the writes of the holdings, and never blocks. It marks the keys of jobs beyond
// maxWrites again.
func (b *Manager) startWrites(ctx context.Context, jobs []job, now time.Time) {
	for _, j := range jobs {
		if !j.writing.CompareAndSwap(false, true) {
			b.retryLater(j)
			continue
		}
		if !b.acquireSlot() {
			j.writing.Store(false)
			b.slotNeeded.Store(true)
			b.retryLater(j)
			continue
		}
		b.writes.Go(func() {
			defer func() {
				j.writing.Store(false)
				<-b.writeSlots
				if b.slotNeeded.Swap(false) {
					b.wake()
				}
			}()
			if j.account == nil {
				b.release(ctx, j.holding, now)
			} else {
				b.refill(ctx, j, now)
			}
		})
	}
}

func (b *Manager) retryLater(j job) {
	if j.account != nil {
		b.marked.Add(j.account.slot)
	}
}

func (b *Manager) acquireSlot() bool {
	select {
	case b.writeSlots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (b *Manager) release(ctx context.Context, h *holding, now time.Time) {
	h.trim(0)
	if now.Before(h.retryAt) {
		return
	}
	if _, err := b.write(ctx, h, 0, now, func(int64) int64 { return 0 }); err == nil {
		h.resetBackoff()
	}
}

// refill leases more requests if the holding runs low, and releases some if a peer is short.
func (b *Manager) refill(ctx context.Context, j job, now time.Time) {
	h, replicas := j.holding, b.peerCount.Load()+1
	if quota := h.quota.Load(); quota != j.limits.Quota {
		if quota > j.limits.Quota { // the holding may exceed the reduced quota
			h.trim(0)
		}
		h.quota.Store(j.limits.Quota)
		h.resetBackoff()
	}
	d := b.measureDemand(j, now)
	if d.peerShort && h.trim(d.minimum()) {
		h.resetBackoff()
	}
	if now.Before(h.retryAt) || h.loaded && !h.uncertain && h.lapses.Load() == b.lapses.Load() && h.unspent.Load() > h.refillAt.Load() {
		return
	}
	result, err := b.write(ctx, h, j.limits.Quota, now, func(free int64) int64 { return d.target(free, replicas) })
	if err != nil {
		return
	}
	if unspent, minimum := h.unspent.Load(), d.minimum(); result.free == 0 && unspent < minimum {
		b.noteShortage(h, j.account, replicas, now)
	} else {
		h.noteSupply(unspent, minimum, result.free == 0)
	}
}

// noteSupply sets the refill threshold to half of the unspent requests. If the quota is fully
// leased, the threshold is at most minimum, because an earlier refill cannot succeed.
func (h *holding) noteSupply(unspent, minimum int64, fullyLeased bool) {
	threshold := unspent / 2
	if fullyLeased {
		threshold = min(threshold, minimum)
	}
	h.refillAt.Store(threshold)
	h.ranOut.Store(false)
	h.exhausted.Store(false)
	h.shortSince = time.Time{}
	h.resetBackoff()
}

// noteShortage asks the peers to release requests. The quota counts as exhausted after the
// handover time, or immediately if there is no other replica, but not during a recovery.
func (b *Manager) noteShortage(h *holding, a *account, replicas int64, now time.Time) {
	if h.shortSince.IsZero() {
		h.shortSince = now
	}
	if replicas > 1 {
		b.shortages.Add(a.slot)
	}
	h.exhausted.Store(!b.recovering.Load() && (replicas == 1 || now.Sub(h.shortSince) >= handover))
	h.backOff(now, emptyPause)
}

func (b *Manager) measureDemand(j job, now time.Time) demand {
	d := demand{ranOut: j.ranOut.Load(), peerShort: now.UnixNano()-j.account.peerShortageAt.Load() < int64(shortageTTL)}
	shape := j.limits.Bucket
	d.rate = float64(time.Second) / float64(shape.Token)
	if j.begins > now.UnixNano() { // the bucket may be full when the period begins
		d.tokens = shape.Burst / shape.Token
		return d
	}
	d.tokens, _ = b.cfg.Buckets.Available(j.account.slot, shape, int64(now.Sub(b.cfg.Start)))
	d.recentRate = j.sample.measure(j.spent(), now)
	return d
}

func (b *Manager) write(ctx context.Context, h *holding, quota int64, now time.Time, target func(int64) int64) (writeResult, error) {
	result, err := h.write(ctx, b, quota, target)
	if err == nil {
		b.writeCount.Add(1)
		return result, nil
	}
	b.failureCount.Add(1)
	h.backOff(now, failedPause)
	if ctx.Err() == nil {
		b.cfg.Log.Warn("lease quota failed", "key", string(h.Prefix), "period", h.ID(), "error", err)
	}
	return result, err
}
