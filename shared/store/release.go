package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
)

// silence is the time without a canary after which a process counts as lost: the longest
// ceiling, and a tolerance for clocks that run at different speeds and for slow processes.
const silence = longestCeiling + 5*time.Second

// Released is the result of [Store.ReleaseLeases].
type Released struct {
	Requests int64 // that are available again
	Held     int64 // by processes that may still allow requests, spent ones included
}

// ReleaseLeases returns what lost processes hold of a key's quota in a period. It also records
// that.
//
// # Why a lost process allows nothing more
//
// A process may allow requests only if each of its three canaries is younger than its ceiling.
// It counts as lost if none of them was written within [silence], and neither was its lease. Its
// lease is read before the canaries, and both by strong reads. If the process gets a proof
// later, it first confirms its lease by a write (package lease of the checker). Either that write
// comes before the release, which then fails and reads the canaries again. Or the process finds
// that its lease is gone. A process without a canary that still starts has written its lease
// recently, or confirms it as well. A replica's name has one process at a time, so a process
// whose canary was replaced has ended. A process of an earlier version confirms nothing, so its
// lease stays.
//
// # What is spent of it
//
// used is the number of requests that were counted in the period. What the other processes do
// not hold of it counts as spent by the lost ones. More is not known. So the quota holds for the
// released requests as a soft one does: checkers deny once as many are counted, but what a lost
// process had not written to its counters is allowed again.
func (s *Store) ReleaseLeases(ctx context.Context, k apikey.Key, t usage.Term, used int64) (r Released, err error) {
	ref := s.leases().Doc(t.ID())
	err = s.transact(ctx, "release "+t.ID(), func(ctx context.Context, tx *firestore.Transaction, b *batch) error {
		r = Released{}
		d, err := txGet(tx, ref, "lease", shape[leaseDoc])
		if problem.Is(err, problem.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, _, err := d.sum(""); err != nil {
			return fmt.Errorf("read lease %s: %w", ref.ID, err)
		}
		written, read, err := s.lastCanaries(ctx)
		if err != nil {
			return err
		}
		var lost []string
		var spent int64
		r, lost = d.lost(written, read)
		spent = min(max(used-d.Held[ended]-r.Held, 0), r.Requests)
		if r.Requests -= spent; len(lost) == 0 {
			return nil
		}
		b.update(ref, d.end(spent, lost...)...)
		s.record(ctx, b, audit.Change{
			Action: audit.ReleaseQuota, Project: k.Project, Resource: keyPath(k), Besides: environmentPath(k.Project, k.Environment),
			New: audit.Values{"period": t.ID(), "released": r.Requests},
		})
		return nil
	})
	return r, err
}

// lost returns the processes that count as lost, and as Requests what they hold.
func (d leaseDoc) lost(written map[string]time.Time, read time.Time) (r Released, lost []string) {
	for process, n := range d.Held {
		since, known := d.Since[process]
		if last := written[process]; last.After(since) {
			since = last
		}
		switch {
		case process == ended:
		case known && !read.Before(since.Add(silence)):
			r.Requests += n
			lost = append(lost, process)
		default:
			r.Held += n
		}
	}
	slices.Sort(lost)
	return r, lost
}

// lastCanaries returns the time at which each process last wrote a canary, and a time before
// which nothing was written that it has not seen.
func (s *Store) lastCanaries(ctx context.Context) (written map[string]time.Time, read time.Time, err error) {
	written = map[string]time.Time{}
	for _, t := range CanaryTypes() {
		list, err := s.Members(ctx, t)
		if err != nil {
			return nil, time.Time{}, err
		}
		for _, m := range list.Members {
			if m.Written.After(written[m.Run]) {
				written[m.Run] = m.Written
			}
		}
		if read.IsZero() || list.Read.Before(read) {
			read = list.Read
		}
	}
	return written, read, nil
}
