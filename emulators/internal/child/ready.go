package child

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	pollEvery = 20 * time.Millisecond // from one look at a starting child to the next
	pollLimit = 2 * time.Second       // for one look
)

// Ready waits until check gives nil. It fails when the child ends before that,
// or, with the reason of the last check, when ctx does.
func (p *Process) Ready(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		look, cancel := context.WithTimeout(ctx, pollLimit)
		err := check(look)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-p.done:
			return p.Err()
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready: %w", p.name, context.Cause(ctx)), last)
		case <-tick.C:
		}
	}
}
