package rollup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	keysAtOnce = 200 // keys in a comparison

	// maxSkew is the maximum expected clock skew of processes that change keys. A change with an
	// older time is compared in the daily pass.
	maxSkew = 3 * time.Minute
)

// keylist corrects the list of keys: for the keys changed since the previous run, and once a day
// for all keys. Corrections are needed only after changes by an earlier release or a restored
// backup.
func (r *run) keylist(ctx context.Context, settled usage.Day) error {
	state, err := r.store.KeyList(ctx)
	if err != nil {
		return fmt.Errorf("list of keys: %w", err)
	}
	if state.Changed.IsZero() {
		state.Changed = r.began.Add(-maxSkew)
	}
	err = r.changedKeys(ctx, &state.Changed)
	if err == nil {
		err = r.allKeys(ctx, &state, settled)
	}
	if err = errors.Join(err, r.store.SetKeyList(ctx, state)); err != nil { // stores the progress
		return fmt.Errorf("list of keys: %w", err)
	}
	return nil
}

func (r *run) changedKeys(ctx context.Context, since *time.Time) error {
	for {
		last, compared, corrected, err := r.store.RelistChanged(ctx, *since, keysAtOnce)
		if err != nil {
			return err
		}
		r.result.Listed += corrected
		if compared < keysAtOnce {
			if until := r.began.Add(-maxSkew); until.After(*since) {
				*since = until
			}
			return nil
		}
		if !last.After(*since) { // all at the same time
			last = since.Add(time.Microsecond)
		}
		*since = last
	}
}

// passTime is the share of a run's time after which a pass continues in the next run.
const passTime = 2.0 / 3

type pass struct {
	after   apikey.ID
	settled usage.Day
	sums    map[string]*summing // by namespace
}

// allKeys continues today's pass over all keys. At its end, it stores the summaries of all
// environments. A new process restarts the pass.
func (r *run) allKeys(ctx context.Context, state *store.ListState, settled usage.Day) error {
	if state.Day == r.today.String() {
		return nil
	}
	if r.pass == nil || r.pass.after != state.After || r.pass.settled != settled {
		r.pass, state.After = &pass{settled: settled, sums: map[string]*summing{}}, ""
	}
	until := time.Now().Add(time.Duration(passTime * float64(r.cfg.run()))) //nolint:forbidigo // only limits the work
	for time.Now().Before(until) {                                          //nolint:forbidigo // the same
		last, corrected, err := r.store.RelistKeys(ctx, state.After, keysAtOnce, r.pass.add(usage.EarliestKept(r.today)))
		if err != nil {
			r.pass = nil // may contain some of these keys
			return err
		}
		r.result.Listed += corrected
		state.After, r.pass.after = last, last
		if last != "" {
			continue
		}
		if err := r.store.SetSummaries(ctx, r.pass.summaries()); err != nil {
			return err
		}
		state.Day, state.Settled, r.pass = r.today.String(), settled, nil
		return nil
	}
	return nil
}
