// Package lease holds hard quotas: no replica, and not all of them together, ever allow
// one request more (promise P9).
//
// # Why a hard quota is never exceeded
//
// The store has one document for each key and period: how much of the quota each process
// holds. A process writes what it will hold before it allows any of it, on top of the
// version that it read, and never so much that the sum is beyond the quota. It allows only
// what it holds, from memory: each request takes one, and there is nothing to take where
// none is left. What it gives back it has taken out of its memory before it is written.
// So at any time, whatever fails,
//
//	allowed ≤ held in memory ≤ held in the store, and the sum of the latter ≤ quota
//
// A write whose outcome is not known may have landed, may land later, or never: it can only
// say more than what is held in memory, or, where something was given back, what was true
// of memory before and after it. The next write is on top of a version that is read anew,
// and is written even if it seems to change nothing: then none before it can land any more.
// What is held by a larger quota than the one that holds now is not spent: it is given back,
// and leased of anew.
//
// # After a crash
//
// A process records each request that it spends in a file of its pod (package spent), after it
// takes the request from what is left and before the request is allowed. One atomic addition
// to mapped memory does that. So at any time
//
//	allowed ≤ recorded ≤ held in memory ≤ held in the store
//
// A term gets its record when its entry in the store is first read, before anything of it can
// be spent. What the entry held by then counts as spent.
//
// When the process has died, the pod's next process gets the lock of that file. From then on
// nothing can change the record: the process can neither allow nor record a request. The next
// process reads the record and sets the entry to the recorded number, if it holds more. It
// adds that number to the entry of all ended processes, and deletes the one that had the name
// of the process. Both happen in one write on top of the version that it read. Three things
// follow:
//
//   - The sum stays at or above the number of allowed requests, and the whole rest is
//     available again.
//   - A late write of the dead process is on top of an earlier version, so it never lands.
//   - A repeated recovery finds no entry and changes nothing. No process has the name again.
//
// A process that stops does the same for itself, after its last request. In doubt, package
// spent returns no record. The entry then stays as it is until the period ends.
//
// The entry of a lost pod's process stays, because nothing proves how much of it was spent. That
// is the price, so replicas hold little.
//
// # After a silence
//
// A process without a valid proof of freshness (package canary) allows nothing, and others may
// treat it as lost. So once it has a proof again, it spends nothing of what it held before until
// the store has confirmed it by a write. If its entry is lower than what it held, or gone, it
// keeps only what it has spent. A process whose first proof comes later than the ceiling after
// its start does the same.
//
// # How much a replica holds
//
// What its bucket lets through at once, and what it needs for the next 0.3 seconds at the pace
// at which it has allowed requests lately, or at an even part of the plan's rate; for ten
// seconds as long as that is a hundredth of what is left. But never more than its part of half
// of what is left (see [demand.level]). It asks for more when half of that is spent: no request
// waits for the store. Of every key with such a quota something is held before it is used, and
// of the next period before it begins.
//
// When all is given out and a replica has too little, it says so (package peers), and the
// others give back what they do not need at once. Meanwhile it answers 503, for it is not
// known whether there is quota left; after [handover] 429: what nobody gave back is with
// replicas that are gone, or that cannot be heard.
//
// # What is not exact
//
// The store knows of no request that was allowed while the quota was soft, or counted over
// another period. So in the period in which a plan becomes hard, its quota holds as a soft
// one does (package meter looks at what is counted all the same).
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

// Store keeps what processes hold; see the store's own.
type Store interface {
	Lease(ctx context.Context, t usage.Term, process string, force bool, change func(own, others int64) int64) error
	EndLeases(ctx context.Context, all []usage.Ended) (rest []usage.Ended, err error)
}

// Config is what a book needs.
type Config struct {
	Run     string // random, unique to this process
	Store   Store
	View    func() *view.View // the current one
	Buckets *bucket.Buckets
	Start   time.Time  // the zero of the buckets' clock
	Spent   *spent.Dir // of this pod's processes; nil without one
	Now     func() time.Time
	Log     *slog.Logger
}

// Book is what this process holds of hard quotas.
type Book struct {
	cfg      Config
	accounts atomic.Pointer[map[uint32]*account] // by slot: the keys with a hard quota
	low      slots.Set                           // keys of which more is needed, or less
	wanting  slots.Set                           // keys of which others are to give back
	others   atomic.Int64                        // replicas
	changed  atomic.Bool                         // the view, since it was looked at
	lapses   atomic.Int64                        // times without a proof of freshness
	more     atomic.Bool                         // there may be more to lease, or less is held
	awake    chan struct{}

	writes, failures atomic.Uint64

	keeper
	record
}

// New makes a book that holds nothing.
func New(cfg Config) *Book {
	b := &Book{cfg: cfg, awake: make(chan struct{}, 1), keeper: keeper{turn: make(chan struct{}, atOnce), terms: map[usage.Term]*term{}, behind: map[uint32]bool{}}}
	b.accounts.Store(&map[uint32]*account{})
	return b
}

// account is a key with a hard quota.
type account struct {
	slot   uint32
	prefix apikey.Prefix
	now    atomic.Pointer[term] // of the period that holds now; nil until it is leased of
	next   atomic.Pointer[term] // of the next one, shortly before it begins
	wanted atomic.Int64         // when another replica last said that it has too little; Unix nanoseconds
}

// term is what this process holds of a key's quota in one period.
type term struct {
	usage.Term

	began, ends int64        // Unix nanoseconds
	left        atomic.Int64 // held and not spent
	low         atomic.Int64 // at how many left more is asked for
	quota       atomic.Int64 // by which it is held
	lapses      atomic.Int64 // of the book when the store last confirmed what is held
	asked       atomic.Bool  // a request has found none left
	none        atomic.Bool  // all is given out, and nobody gave any of it back

	recorded   *atomic.Int64 // spent, in this process's file; unrecorded without a slot there
	unrecorded atomic.Int64

	ledger
}

// Answer is what becomes of a request by its key's hard quota.
type Answer int

// The answers.
const (
	Spent    Answer = iota // it is one of the quota
	Unleased               // there may be quota left, but none of it is held here
	Gone                   // there is none left
)

// Spend takes one of a key's quota. It takes no lock, asks nobody and allocates nothing.
func (b *Book) Spend(slot uint32, l view.Limits, now int64) Answer {
	a := (*b.accounts.Load())[slot]
	if a == nil {
		return Unleased // the view has just got it
	}
	t := a.at(now, l.Period)
	if t == nil || t.quota.Load() > l.Quota || t.lapses.Load() != b.lapses.Load() {
		b.ask(slot)
		return Unleased
	}
	for {
		left := t.left.Load()
		if left <= 0 {
			return b.lacking(slot, t, l.Quota)
		}
		if t.left.CompareAndSwap(left, left-1) {
			t.recorded.Add(1) // before the request is allowed
			if left-1 <= t.low.Load() {
				b.ask(slot)
			}
			return Spent
		}
	}
}

// lacking is what becomes of a request that finds none left.
func (b *Book) lacking(slot uint32, t *term, quota int64) Answer {
	if !t.asked.Load() {
		t.asked.Store(true)
	}
	b.ask(slot)
	if t.none.Load() && t.quota.Load() == quota { // else there is more since
		return Gone
	}
	return Unleased
}

// at gives the term that holds now.
func (a *account) at(now int64, p plan.Period) *term {
	for _, t := range [...]*term{a.now.Load(), a.next.Load()} {
		if t != nil && t.Period == p && now >= t.began && now < t.ends {
			return t
		}
	}
	return nil
}

// ask has the keeper look at a key.
func (b *Book) ask(slot uint32) {
	b.low.Add(slot)
	b.wake()
}

func (b *Book) wake() {
	select {
	case b.awake <- struct{}{}:
	default:
	}
}

// Lapse notes a time without a proof of freshness. What was held then may have been released,
// so none of it is spent until the store has confirmed it.
func (b *Book) Lapse() {
	b.lapses.Add(1)
	b.more.Store(true)
	b.wake()
}

// Grow makes room for slots below n. One goroutine at a time may call it.
func (b *Book) Grow(n uint32) {
	b.low.Grow(n)
	b.wanting.Grow(n)
}

// Changed says that the view is another one.
func (b *Book) Changed() {
	b.changed.Store(true)
	b.wake()
}

// SetOthers says how many other replicas there are.
func (b *Book) SetOthers(n int) { b.others.Store(int64(n)) }

// Wanting are the keys of which this replica has too little, a set that is taken out of by
// one goroutine: the others are to be told.
func (b *Book) Wanting() *slots.Set { return &b.wanting }

// Wanted notes that another replica has too little of a key.
func (b *Book) Wanted(slot uint32, now time.Time) {
	if a := (*b.accounts.Load())[slot]; a != nil {
		a.wanted.Store(now.UnixNano())
		b.ask(slot)
	}
}

// Keys is how many keys have a hard quota.
func (b *Book) Keys() int { return len(*b.accounts.Load()) }

// Writes is how often what is held was brought to the store.
func (b *Book) Writes() uint64 { return b.writes.Load() }

// Failures is how often that failed, or had an unclear outcome.
func (b *Book) Failures() uint64 { return b.failures.Load() }
