package rollup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/usage"
)

// staleAge is the age of canaries to delete. Replicas write canaries every few seconds.
const staleAge = 24 * time.Hour

// leaseRetention is the time for which leases are stored after their period, to allow for slow
// clocks.
const leaseRetention = 24 * time.Hour

func (r *run) prune(ctx context.Context, settled usage.Day) error {
	if r.pruned && r.prunedDay == settled {
		return nil
	}
	earliest, res := usage.EarliestKept(r.today), &r.result
	err := errors.Join(
		// Counters of finalized days outside all quota periods.
		deleteAll(&res.Deleted, 1, func() (int, error) {
			return r.store.DeleteCounters(ctx, min(r.today-(usage.CounterDays-1), settled+1))
		}),
		r.pruneRollups(ctx, earliest),
		r.deleteCanaries(ctx),
		deleteAll(&res.Leases, chunk, func() (int, error) { return r.store.DeleteLeases(ctx, r.began.Add(-leaseRetention), chunk) }),
		deleteAll(&res.Thresholds, chunk, func() (int, error) { return r.store.DeleteThresholds(ctx, r.began, chunk) }),
		// Keys revoked before the first stored day: they have no usage.
		deleteAll(&res.Keys, chunk, func() (int, error) { return r.store.DeleteRevokedKeys(ctx, earliest.Start(), chunk) }),
		deleteAll(&res.Records, chunk, func() (int, error) { return r.store.DeleteRecords(ctx, r.began.Add(-audit.Retention), chunk) }),
		deleteAll(&res.Hosts, chunk, func() (int, error) { return r.store.DeleteReservations(ctx, r.began, chunk) }),
		deleteAll(&res.Receipts, chunk, func() (int, error) {
			return r.store.DeleteReceipts(ctx, r.began.Add(-hook.ReceiptRetention), chunk)
		}),
	)
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	r.pruned, r.prunedDay = true, settled
	return nil
}

// deleteAll calls some until it deletes fewer than least documents, and counts them.
func deleteAll(deleted *int, least int, some func() (int, error)) error {
	for {
		n, err := some()
		*deleted += n
		if err != nil || n < least {
			return err
		}
	}
}

// pruneRollups removes days from rollups one day after their retention: by then, most rollups have
// been rewritten without the day.
func (r *run) pruneRollups(ctx context.Context, earliest usage.Day) error {
	for {
		prefixes, err := r.store.RollupsOlder(ctx, earliest-1, chunk)
		if err = r.skipped(ctx, err); err != nil || len(prefixes) == 0 {
			return err
		}
		err = r.store.UpdateRollups(ctx, prefixes, func(_ apikey.Prefix, h usage.History) usage.History { return h.Since(earliest) })
		if err = r.skipped(ctx, err); err != nil {
			return err
		}
		r.result.Pruned += len(prefixes)
	}
}

func (r *run) deleteCanaries(ctx context.Context) error {
	n, err := r.store.DeleteStaleCanaries(ctx, r.began.Add(-staleAge))
	r.result.Canaries += n
	return err
}
