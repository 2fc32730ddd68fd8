package checker

import (
	"context"
	"sync"
	"time"
)

// firstWrite lets a listener begin once its type's first canary is written: the
// canary then comes with the first full batch, which is the proof already. A
// listener that began first would have to wait for another round, and from a store
// that sends everything anew for each change (the emulator) for the whole batch.
type firstWrite struct {
	once sync.Once
	done chan struct{}
}

// firstWriteLimit is how long a listener waits: one that cannot write may hear all
// the same, and will be proven later.
const firstWriteLimit = 5 * time.Second

// over says that the write has succeeded or failed.
func (f *firstWrite) over() { f.once.Do(func() { close(f.done) }) }

// wait waits for the write, as long as it may take.
func (f *firstWrite) wait(ctx context.Context) {
	timer := time.NewTimer(firstWriteLimit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-f.done:
	case <-timer.C:
	}
}
