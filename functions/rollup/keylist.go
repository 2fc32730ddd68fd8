package rollup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/store"
)

const (
	// keysAtOnce is the number of keys that are compared with the list of keys at a time.
	keysAtOnce = 200

	// keysPerPass bounds the keys that a run compares in the daily pass over all keys.
	keysPerPass = 10_000

	// clocksApart is how far the clocks of the processes that change keys may be apart. A
	// change with a time of further back is compared in the daily pass.
	clocksApart = 3 * time.Minute
)

// keylist brings the list of keys up to date: with the keys that changed since the previous
// run, and with all keys once a day. Functions of this release write both together, so this
// corrects what an earlier release or a restored backup left behind.
func (r *run) keylist(ctx context.Context) error {
	state, err := r.store.KeyList(ctx)
	if err != nil {
		return fmt.Errorf("list of keys: %w", err)
	}
	if state.Changed.IsZero() {
		state.Changed = r.began.Add(-clocksApart)
	}
	changed := r.changedKeys(ctx, &state.Changed)
	pass := r.allKeys(ctx, &state)
	err = errors.Join(changed, pass, r.store.SetKeyList(ctx, state)) // what is done is kept
	if err != nil {
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

// allKeys goes on with the pass over all keys, unless that of today is done.
func (r *run) allKeys(ctx context.Context, state *store.ListState) error {
	if state.Day == r.today.String() {
		return nil
	}
	for compared := 0; compared < keysPerPass; compared += keysAtOnce {
		last, corrected, err := r.store.RelistKeys(ctx, state.After, keysAtOnce)
		if err != nil {
			return err
		}
		r.result.Listed += corrected
		if state.After = last; last == "" {
			state.Day = r.today.String()
			return nil
		}
	}
	return nil
}
