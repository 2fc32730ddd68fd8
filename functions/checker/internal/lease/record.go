package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/spent"
	"github.com/sluicegate/sluice/shared/trace"
)

const (
	// recoverFirst is the longest time for which the leases of this process wait until the
	// rest of the previous processes is returned.
	recoverFirst = time.Second
	// longestRecovery is the longest pause between attempts to return it.
	longestRecovery = 30 * time.Second
)

// record is the book's side towards the files of the pod's processes.
type record struct {
	file       *spent.File // of this process; nil without one
	recovering atomic.Bool // until the first attempt to return the rest of previous processes
}

// openFile opens this process's file. It returns what [Book.previous] does.
func (b *Book) openFile() (all []*spent.Ended, locked int) {
	all, locked = b.previous()
	var err error
	if b.file, err = b.cfg.Spent.Create(b.cfg.Run); err != nil {
		b.cfg.Log.Warn("spent requests are not recorded: a crash keeps what this process holds", "error", err)
	}
	return all, locked
}

// begin opens this process's file, and starts to return what the pod's previous processes did
// not spend. The channel is closed when that is done, or ctx ends.
func (b *Book) begin(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	if b.cfg.Spent == nil {
		close(done)
		return done
	}
	b.recovering.Store(true)
	all, locked := b.openFile()
	go func() {
		defer close(done)
		for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestRecovery) {
			left := locked
			for _, e := range all {
				if !b.recover(ctx, e) {
					left++
				}
			}
			b.recovering.Store(false) // while the store fails, nothing can be leased either
			if left == 0 {
				return
			}
			trace.Sleep(ctx, pause)
			all, locked = b.previous()
		}
	}()
	return done
}

// previous returns the files of the pod's processes that have ended, and the number of other
// files that are locked.
func (b *Book) previous() (all []*spent.Ended, locked int) {
	all, locked, err := b.cfg.Spent.Ended()
	if err != nil {
		b.cfg.Log.Error("records of spent requests cannot be read: their leases count as spent", "error", err)
	}
	if b.file != nil {
		locked-- // its own
	}
	return all, locked
}

// recover returns what a process that has ended did not spend, and reports whether all of it
// is returned.
func (b *Book) recover(ctx context.Context, e *spent.Ended) bool {
	if e.Damaged > 0 {
		b.cfg.Log.Error("records of spent requests are not valid: their leases count as spent", "process", e.Run, "records", e.Damaged)
	}
	rest, err := b.cfg.Store.EndLeases(ctx, e.Spent)
	b.more.Store(true)
	b.wake()
	if err != nil {
		b.failures.Add(1)
		b.cfg.Log.Warn("leases of a previous process not returned", "process", e.Run, "leases", len(rest), "error", err)
		_ = e.Close() // the next attempt opens it again
		return false
	}
	b.cfg.Log.Info("leases of a previous process returned", "process", e.Run, "leases", len(e.Spent))
	if err := e.Discard(); err != nil {
		b.cfg.Log.Warn("delete the record of a previous process failed", "process", e.Run, "error", err)
	}
	return true
}

// enter assigns a slot of the file to a term that was read, if there is room.
func (b *Book) enter(t *term) {
	if b.file == nil {
		return
	}
	if t.slot, t.slotted = b.file.Add(t.Term, t.held); t.slotted {
		t.recorded = t.slot.Spent
	}
}

// strike frees the slot of a term that is over.
func (b *Book) strike(t *term) {
	if t.slotted {
		b.file.Remove(t.slot)
	}
}

// discard deletes the file: all of it is returned.
func (b *Book) discard() {
	if b.file == nil {
		return
	}
	if err := b.file.Discard(); err != nil {
		b.cfg.Log.Warn("delete the record of spent requests failed", "error", err)
	}
}

// reconsider has the keeper look at all keys again, without a pause.
func (b *Book) reconsider() {
	for slot, a := range *b.accounts.Load() {
		for _, t := range [...]*term{a.now.Load(), a.next.Load()} {
			if t != nil && t.taken.CompareAndSwap(false, true) {
				t.calm()
				t.taken.Store(false)
			}
		}
		b.behind[slot] = true
	}
}
