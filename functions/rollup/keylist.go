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
	// keysAtOnce is the number of keys that are compared with the list of keys at a time.
	keysAtOnce = 200

	// clocksApart is the largest expected difference of the clocks of the processes that change
	// keys. A change that arrives with an older time is compared in the daily pass.
	clocksApart = 3 * time.Minute
)

// keylist brings the list of keys up to date: with the keys that changed since the previous
// run, and with all keys once a day. Functions of this release write both together, so this
// corrects the entries of keys that an earlier release changed, or that a backup restored.
func (r *run) keylist(ctx context.Context, settled usage.Day) error {
	state, err := r.store.KeyList(ctx)
	if err != nil {
		return fmt.Errorf("list of keys: %w", err)
	}
	if state.Changed.IsZero() {
		state.Changed = r.began.Add(-clocksApart)
	}
	err = r.changedKeys(ctx, &state.Changed)
	if err == nil {
		err = r.allKeys(ctx, &state, settled)
	}
	if err = errors.Join(err, r.store.SetKeyList(ctx, state)); err != nil { // what is done is kept
		return fmt.Errorf("list of keys: %w", err)
	}
	return nil
}

// changedKeys compares the keys that changed since a time, and moves the time on.
func (r *run) changedKeys(ctx context.Context, since *time.Time) error {
	for {
		last, compared, corrected, err := r.store.RelistChanged(ctx, *since, keysAtOnce)
		if err != nil {
			return err
		}
		r.result.Listed += corrected
		if compared < keysAtOnce {
			if until := r.began.Add(-clocksApart); until.After(*since) {
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

// passTime is the part of a run's time after which a pass over all keys waits for the next run.
const passTime = 2.0 / 3

// pass is a pass over all keys: where it is, and the summaries of the keys so far.
type pass struct {
	after   apikey.ID
	settled usage.Day
	sums    map[string]*summing // by namespace
}

// allKeys goes on with the pass over all keys, unless that of today is done. At its end it
// stores the summaries of all environments. A process that has begun in the meantime begins
// again.
func (r *run) allKeys(ctx context.Context, state *store.ListState, settled usage.Day) error {
	if state.Day == r.today.String() {
		return nil
	}
	if r.pass == nil || r.pass.after != state.After || r.pass.settled != settled {
		r.pass, state.After = &pass{settled: settled, sums: map[string]*summing{}}, ""
	}
	until := time.Now().Add(time.Duration(passTime * float64(r.cfg.run()))) //nolint:forbidigo // bounds work, decides nothing
	for time.Now().Before(until) {                                          //nolint:forbidigo // the same
		last, corrected, err := r.store.RelistKeys(ctx, state.After, keysAtOnce, r.pass.add(usage.EarliestKept(r.today)))
		if err != nil {
			r.pass = nil // it may have added some of these keys
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
