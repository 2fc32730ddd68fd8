package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
	"github.com/sluicegate/sluice/shared/usage"
)

// lostAfter is the time without a canary after which a process counts as lost: the longest ceiling,
// plus a tolerance for clock rates and slow processes.
const lostAfter = maxCeiling + 5*time.Second

// Released is the result of [Store.ReleaseLeases].
type Released struct {
	Requests int64
	Held     int64 // held by processes that may still allow requests, including spent requests
}

// ReleaseLeases releases and records the requests that lost processes hold of a key's quota in a
// period. This is safe:
//
//  1. A process counts as lost if neither its lease nor any of its three canaries was written
//     within [lostAfter]. It allows requests only while each canary is younger than its ceiling, so
//     it allows none now.
//  2. A process whose proof becomes valid again first confirms its lease by a write (package lease
//     of the checker). If that write precedes the release, the release fails and reads the canaries
//     again. Otherwise, the process finds that its lease is gone. The lease is read before the
//     canaries, with strong consistency.
//  3. A starting process without a canary has written its lease recently, or confirms it in the
//     same way.
//  4. A replica's name has one process at a time, so a process whose canary was replaced has
//     ended.
//  5. A process of an earlier version confirms nothing, so its lease remains.
//
// used is the number of requests counted in the period. The part of used that other processes do not
// hold counts as spent by the lost processes. Requests that a lost process did not count can be
// allowed again.
func (s *Store) ReleaseLeases(ctx context.Context, k apikey.Key, t usage.QuotaPeriod, used int64) (r Released, err error) {
	ref := s.leases().Doc(t.ID())
	err = s.transact(ctx, "release "+t.ID(), func(ctx context.Context, tx fire.Tx, b *batch) error {
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
		b.Update(ref, d.end(spent, lost...))
		s.record(ctx, b, audit.Change{
			Action: audit.ReleaseQuota, Project: k.Project, Resource: keyPath(k), Besides: environmentPath(k.Project, k.Environment),
			New: audit.Values{"period": t.ID(), "released": r.Requests},
		})
		return nil
	})
	return r, err
}

func (d leaseDoc) lost(written map[string]time.Time, read time.Time) (r Released, lost []string) {
	for process, n := range d.Held {
		since, known := d.Since[process]
		if last := written[process]; last.After(since) {
			since = last
		}
		switch {
		case process == ended:
		case known && !read.Before(since.Add(lostAfter)):
			r.Requests += n
			lost = append(lost, process)
		default:
			r.Held += n
		}
	}
	slices.Sort(lost)
	return r, lost
}

// lastCanaries returns the time of each process's last canary. read is a time before which no
// canary is missing.
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
