package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/spent"
	"github.com/sluicegate/sluice/shared/reqctx"
)

const (
	// recoverFirst is the maximum time for which leasing waits for a recovery.
	recoverFirst     = time.Second
	maxRecoveryPause = 30 * time.Second
)

// record handles the files of the pod's processes. With them, the next process can return the
// unspent requests of a crashed process. This is called recovery:
//
//  1. A holding gets a record when its number in the store is first read. That number counts as
//     spent.
//  2. The next process gets the lock of the file only when the previous process has ended. The
//     previous process can then neither allow nor record a request.
//  3. The next process adds the recorded number to the entry of all ended processes, and deletes
//     the entry of the previous process. It does so in one write, on top of the version that it
//     read.
//
// The store still counts every allowed request. A late write of the previous process is on top of
// an earlier version, so it never lands. A repeated recovery finds no entry, because every process
// has another name. A process that stops does the same for itself.
type record struct {
	file       *spent.File // may be nil
	recovering atomic.Bool // until the first attempt has ended
}

func (b *Manager) openFile() (all []*spent.Ended, locked int) {
	all, locked = b.endedFiles()
	var err error
	if b.file, err = b.cfg.Spent.Create(b.cfg.Run); err != nil {
		b.cfg.Log.Warn("create record file failed: leases are not returned after a crash", "error", err)
	}
	return all, locked
}

// startRecovery starts a recovery. The channel is closed when it is complete or ctx ends.
func (b *Manager) startRecovery(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	if b.cfg.Spent == nil {
		close(done)
		return done
	}
	b.recovering.Store(true)
	all, locked := b.openFile()
	go func() {
		defer close(done)
		for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxRecoveryPause) {
			remaining := locked
			for _, e := range all {
				if !b.recoverLeases(ctx, e) {
					remaining++
				}
			}
			b.recovering.Store(false) // if the store fails, leasing fails as well
			if remaining == 0 {
				return
			}
			reqctx.Sleep(ctx, pause)
			all, locked = b.endedFiles()
		}
	}()
	return done
}

// endedFiles returns the files of ended processes and the number of other locked files.
func (b *Manager) endedFiles() (all []*spent.Ended, locked int) {
	all, locked, err := b.cfg.Spent.Ended()
	if err != nil {
		b.cfg.Log.Error("read record files failed: their leases count as spent", "error", err)
	}
	if b.file != nil {
		locked-- // this process's own
	}
	return all, locked
}

func (b *Manager) recoverLeases(ctx context.Context, e *spent.Ended) bool {
	if e.Damaged > 0 {
		b.cfg.Log.Error("invalid records: their leases count as spent", "process", e.Run, "records", e.Damaged)
	}
	rest, err := b.cfg.Store.EndLeases(ctx, e.Spent)
	b.retryNow.Store(true)
	b.wake()
	if err != nil {
		b.failureCount.Add(1)
		b.cfg.Log.Warn("return leases of a previous process failed", "process", e.Run, "leases", len(rest), "error", err)
		_ = e.Close() // the next attempt opens it again
		return false
	}
	b.cfg.Log.Info("leases of a previous process returned", "process", e.Run, "leases", len(e.Spent))
	if err := e.Discard(); err != nil {
		b.cfg.Log.Warn("delete record file of a previous process failed", "process", e.Run, "error", err)
	}
	return true
}

func (b *Manager) addRecord(h *holding) {
	if b.file == nil {
		return
	}
	if h.recordSlot, h.hasRecord = b.file.Add(h.QuotaPeriod, h.held); h.hasRecord {
		h.recorded = h.recordSlot.Spent
	}
}

func (b *Manager) removeRecord(h *holding) {
	if h.hasRecord {
		b.file.Remove(h.recordSlot)
	}
}

func (b *Manager) discardFile() {
	if b.file == nil {
		return
	}
	if err := b.file.Discard(); err != nil {
		b.cfg.Log.Warn("delete record file failed", "error", err)
	}
}

func (b *Manager) retryAll() {
	for slot, a := range *b.accounts.Load() {
		for _, h := range [...]*holding{a.current.Load(), a.next.Load()} {
			if h != nil && h.writing.CompareAndSwap(false, true) {
				h.resetBackoff()
				h.writing.Store(false)
			}
		}
		b.pending[slot] = true
	}
}
