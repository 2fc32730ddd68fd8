package rollup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/usage"
)

// stale is how old a canary must be to be that of a replica that is gone; one
// that lives writes its canaries every few seconds.
const stale = 24 * time.Hour

// tidy removes what is no longer needed. None of it matters to any total.
func (r *run) tidy(ctx context.Context, settled usage.Day) error {
	if r.tidied && r.tidyDay == settled {
		return nil
	}
	err := errors.Join(r.deleteCounters(ctx, settled), r.prune(ctx), r.sweep(ctx), r.deleteKeys(ctx), r.forget(ctx))
	if err != nil {
		return fmt.Errorf("tidy up: %w", err)
	}
	r.tidied, r.tidyDay = true, settled
	return nil
}

// deleteCounters deletes the counters of settled days that no period holds.
func (r *run) deleteCounters(ctx context.Context, settled usage.Day) error {
	before := min(r.today-(usage.CounterDays-1), settled+1)
	for {
		n, err := r.Counters.DeleteCounters(ctx, before)
		r.result.Deleted += n
		if err != nil || n == 0 {
			return err
		}
	}
}

// prune takes days out of rollups one day after they left the retention: by then
// most have been written anew, and lost the day with that.
func (r *run) prune(ctx context.Context) error {
	earliest := usage.EarliestKept(r.today)
	for {
		prefixes, err := r.Rollups.RollupsOlder(ctx, earliest-1, chunk)
		if err != nil || len(prefixes) == 0 {
			return err
		}
		err = r.Rollups.UpdateRollups(ctx, prefixes, func(_ apikey.Prefix, h usage.History) usage.History { return h.Since(earliest) })
		if err != nil {
			return err
		}
		r.result.Pruned += len(prefixes)
	}
}

// deleteKeys deletes keys that were revoked before the first kept day: no report shows
// a day of theirs any more.
func (r *run) deleteKeys(ctx context.Context) error {
	for {
		n, err := r.Keys.DeleteRevokedKeys(ctx, usage.EarliestKept(r.today).Start(), chunk)
		r.result.Keys += n
		if err != nil || n < chunk {
			return err
		}
	}
}

// forget deletes audit records that are older than they are kept.
func (r *run) forget(ctx context.Context) error {
	for {
		n, err := r.Audit.DeleteRecords(ctx, r.began.Add(-audit.Kept), chunk)
		r.result.Records += n
		if err != nil || n < chunk {
			return err
		}
	}
}

func (r *run) sweep(ctx context.Context) error {
	n, err := r.Canaries.DeleteStaleCanaries(ctx, r.began.Add(-stale))
	r.result.Canaries += n
	return err
}
