// Package lease enforces hard quotas: all replicas together never allow a request beyond one
// (promise P9). A [Manager] holds a part of each quota for this process, and spends it from memory.
//
// # Why a hard quota is never exceeded
//
//  1. The store has a document per key and period. It contains the number of requests that each
//     process holds, spent ones included. The sum never exceeds the quota.
//  2. A process writes a higher number before it spends from it, on top of the version that it
//     read. It removes requests from memory before it writes a lower number.
//  3. Before a process allows a request, it takes the request from memory and records it in a file
//     of the pod (package spent).
//  4. A write with an unknown result may land later or never. In both cases, the number in the
//     store is at least the number in memory. The next write reads the document again and always
//     changes its version, so no earlier write can land after it.
//  5. If the quota is reduced, the process releases its unspent requests and leases new ones.
//
// At any time, regardless of failures:
//
//	allowed ≤ recorded ≤ held in memory ≤ held in the store, and the sum in the store ≤ quota
//
// After a crash, the pod's next process returns the unspent requests (record.go). The holding of a
// lost pod stays until the period ends, so replicas hold little (demand.go).
//
// # After a lapse of the proof
//
// A process without a valid proof (package canary) allows nothing, and others may treat it as
// lost. After the next proof, it spends nothing until a write has confirmed its holding. If its
// number in the store has become lower, it keeps only the spent part of its holding.
//
// # Limitation
//
// The store does not count requests that were allowed while the quota was soft, or counted over
// another period. In the period of such a change, the quota holds only as a soft one (package meter).
package lease

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/slots"
	"github.com/sluicegate/sluice/functions/checker/internal/spent"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
)

// Store stores the holdings of all processes.
type Store interface {
	Lease(ctx context.Context, t usage.QuotaPeriod, process string, force bool, change func(own, others int64) int64) error
	EndLeases(ctx context.Context, all []usage.Ended) (rest []usage.Ended, err error)
}

// Config contains the dependencies of a book.
type Config struct {
	Run     string
	Store   Store
	View    func() *view.View
	Buckets *bucket.Buckets
	Start   time.Time
	Spent   *spent.Dir // may be nil
	Now     func() time.Time
	Log     *slog.Logger
}

// Manager holds parts of hard quotas for this process.
type Manager struct {
	cfg         Config
	accounts    atomic.Pointer[map[uint32]*account]
	marked      slots.Set // keys that need more requests, or fewer
	shortages   slots.Set // keys of which peers must release requests
	peerCount   atomic.Int64
	viewChanged atomic.Bool
	lapses      atomic.Int64
	retryNow    atomic.Bool
	wakeup      chan struct{}

	writeCount, failureCount atomic.Uint64

	reconciler
	record
}

// New returns a book without holdings.
func New(cfg Config) *Manager {
	b := &Manager{cfg: cfg, wakeup: make(chan struct{}, 1), reconciler: reconciler{writeSlots: make(chan struct{}, maxWrites), holdings: map[usage.QuotaPeriod]*holding{}, pending: map[uint32]bool{}}}
	b.accounts.Store(&map[uint32]*account{})
	return b
}

// account is a key with a hard quota.
type account struct {
	slot           uint32
	prefix         apikey.Prefix
	current        atomic.Pointer[holding]
	next           atomic.Pointer[holding]
	peerShortageAt atomic.Int64 // Unix nanoseconds
}

// holding is this process's part of a key's quota in one period.
type holding struct {
	usage.QuotaPeriod

	begins, ends int64 // Unix nanoseconds
	unspent      atomic.Int64
	refillAt     atomic.Int64
	quota        atomic.Int64
	lapses       atomic.Int64 // Book.lapses when the store last confirmed it
	ranOut       atomic.Bool
	exhausted    atomic.Bool // the quota is fully leased, and no replica releases any

	recorded   *atomic.Int64 // spent, in the file or in unrecorded
	unrecorded atomic.Int64

	ledger
}

// Result is the result of spending from a hard quota.
type Result int

// The results of [Book.Spend].
const (
	Spent    Result = iota
	Unleased        // this process holds none of the quota; others may hold some
	Exhausted
)

// Spend spends one request of a key's quota. It does not wait.
func (b *Manager) Spend(slot uint32, l view.Limits, now int64) Result {
	a := (*b.accounts.Load())[slot]
	if a == nil {
		return Unleased // the key is new in the view
	}
	h := a.at(now, l.Period)
	if h == nil || h.quota.Load() > l.Quota || h.lapses.Load() != b.lapses.Load() {
		b.mark(slot)
		return Unleased
	}
	for {
		unspent := h.unspent.Load()
		if unspent <= 0 {
			return b.noneUnspent(slot, h, l.Quota)
		}
		if h.unspent.CompareAndSwap(unspent, unspent-1) {
			h.recorded.Add(1) // before the request is allowed
			if unspent-1 <= h.refillAt.Load() {
				b.mark(slot)
			}
			return Spent
		}
	}
}

func (b *Manager) noneUnspent(slot uint32, h *holding, quota int64) Result {
	if !h.ranOut.Load() {
		h.ranOut.Store(true)
	}
	b.mark(slot)
	if h.exhausted.Load() && h.quota.Load() == quota { // otherwise more can be leased
		return Exhausted
	}
	return Unleased
}

func (a *account) at(now int64, p plan.Period) *holding {
	for _, h := range [...]*holding{a.current.Load(), a.next.Load()} {
		if h != nil && h.Period == p && now >= h.begins && now < h.ends {
			return h
		}
	}
	return nil
}

// mark wakes the reconciler to process a key.
func (b *Manager) mark(slot uint32) {
	b.marked.Add(slot)
	b.wake()
}

func (b *Manager) wake() {
	select {
	case b.wakeup <- struct{}{}:
	default:
	}
}

// Lapse records a lapse of the proof. Another process may have released the holdings.
func (b *Manager) Lapse() {
	b.lapses.Add(1)
	b.retryNow.Store(true)
	b.wake()
}

// Grow makes room for the slots below n, like [slots.Table.Grow].
func (b *Manager) Grow(n uint32) {
	b.marked.Grow(n)
	b.shortages.Grow(n)
}

// Changed records that the view has changed.
func (b *Manager) Changed() {
	b.viewChanged.Store(true)
	b.wake()
}

// SetPeerCount sets the number of other replicas.
func (b *Manager) SetPeerCount(n int) { b.peerCount.Store(int64(n)) }

// Shortages returns the keys of which this replica lacks requests, to notify its peers.
func (b *Manager) Shortages() *slots.Set { return &b.shortages }

// NotePeerShortage records that a peer lacks requests of a key.
func (b *Manager) NotePeerShortage(slot uint32, now time.Time) {
	if a := (*b.accounts.Load())[slot]; a != nil {
		a.peerShortageAt.Store(now.UnixNano())
		b.mark(slot)
	}
}

// Keys returns the number of keys with a hard quota.
func (b *Manager) Keys() int { return len(*b.accounts.Load()) }

// Writes returns the number of successful writes of holdings.
func (b *Manager) Writes() uint64 { return b.writeCount.Load() }

// Failures returns the number of writes that failed or had an unknown result.
func (b *Manager) Failures() uint64 { return b.failureCount.Load() }
