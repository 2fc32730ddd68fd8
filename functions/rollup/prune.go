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

// stale is how old a canary must be to be that of a replica that is gone; one
// that lives writes its canaries every few seconds.
const stale = 24 * time.Hour

// over is for how long leases are kept when their period has ended: longer than any clock
// that the checkers go by is behind.
const over = 24 * time.Hour

// prune removes what is no longer needed. None of it matters to any total.
func (r *run) prune(ctx context.Context, settled usage.Day) error {
	if r.pruned && r.prunedDay == settled {
		return nil
	}
	earliest, res := usage.EarliestKept(r.today), &r.result
	err := errors.Join(
		// Counters of settled days that no period holds.
		deleteAll(&res.Deleted, 1, func() (int, error) {
			return r.store.DeleteCounters(ctx, min(r.today-(usage.CounterDays-1), settled+1))
		}),
		r.pruneRollups(ctx, earliest),
		r.deleteCanaries(ctx),
		deleteAll(&res.Leases, chunk, func() (int, error) { return r.store.DeleteLeases(ctx, r.began.Add(-over), chunk) }),
		deleteAll(&res.Thresholds, chunk, func() (int, error) { return r.store.DeleteThresholds(ctx, r.began, chunk) }),
		// Keys that were revoked before the first kept day: no report shows a day of theirs any more.
		deleteAll(&res.Keys, chunk, func() (int, error) { return r.store.DeleteRevokedKeys(ctx, earliest.Start(), chunk) }),
		deleteAll(&res.Records, chunk, func() (int, error) { return r.store.DeleteRecords(ctx, r.began.Add(-audit.Kept), chunk) }),
		deleteAll(&res.Hosts, chunk, func() (int, error) { return r.store.DeleteReservations(ctx, r.began, chunk) }),
		deleteAll(&res.Receipts, chunk, func() (int, error) {
			return r.store.DeleteReceipts(ctx, r.began.Add(-hook.ReceiptsKept), chunk)
		}),
	)
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	r.pruned, r.prunedDay = true, settled
	return nil
}

// deleteAll deletes until fewer are found than at least, and counts them.
func deleteAll(deleted *int, least int, some func() (int, error)) error {
	for {
		n, err := some()
		*deleted += n
		if err != nil || n < least {
			return err
		}
	}
}

// pruneRollups takes days out of rollups one day after they left the retention: by then
// most have been written anew, and lost the day with that.
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
	n, err := r.store.DeleteStaleCanaries(ctx, r.began.Add(-stale))
	r.result.Canaries += n
	return err
}
