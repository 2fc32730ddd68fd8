package webhook

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	turnSlots = 1 << 8 // apps that share a slot take turns too

	// turnPatience bounds the wait for one's turn, below the server's own patience.
	turnPatience = 20 * time.Second
)

// turns lets the calls for one app go to the store one after the other. Each is a
// transaction on the app's document, and transactions that meet there all fail but
// one and try again a second or more later; a pipeline's twenty calls at once would
// take longer than a call may. Between replicas the store's own retries remain.
type turns struct {
	seed  maphash.Seed
	slots [turnSlots]chan struct{} // each has room for the one whose turn it is
}

func newTurns() *turns {
	t := &turns{seed: maphash.MakeSeed()}
	for i := range t.slots {
		t.slots[i] = make(chan struct{}, 1)
	}
	return t
}

// wait waits for the app's turn; done ends it. Problem: unavailable.
func (t *turns) wait(ctx context.Context, ref app.Ref) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	slot := t.slots[maphash.String(t.seed, ref.String())%turnSlots]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, problem.Of(problem.Unavailable).Because(ctx.Err())
	}
}
