package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/storetest"
)

type commits []time.Time

type receivedBatches struct {
	batches  []store.Batch[plan.Plan]
	received []time.Time
}

const enough = 20

var errEnough = errors.New("enough")

func (m *receivedBatches) Receive(b store.Batch[plan.Plan]) error {
	m.batches, m.received = append(m.batches, b), append(m.received, time.Now())
	if len(m.batches) == enough {
		return errEnough
	}
	return nil
}

func (m *receivedBatches) Heard() {}

// TestNoCommitIsMissing verifies that a batch, or one that follows within its lag, contains every
// commit until its time.
func TestNoCommitIsMissing(t *testing.T) {
	t.Parallel()
	const writers, listeners = 8, 10
	project := storetest.Project(t)
	feed, raw := store.NewFeed(project), rawClient(t, project)
	written := make([]commits, writers)
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for w := range written {
		writing.Go(func() { written[w] = write(ctx, t, raw.Doc(fmt.Sprintf("plans/canary.%d", w))) })
	}
	var all []receivedBatches
	for len(all) < listeners && ctx.Err() == nil {
		var m receivedBatches
		// The emulator breaks streams that begin while it sends a change.
		if err := feed.Plans(ctx, &m); errors.Is(err, errEnough) {
			all = append(all, m)
		}
	}
	stop()
	writing.Wait()
	late, latest := 0, time.Duration(0)
	for _, m := range all {
		for w, commits := range written {
			seen := int64(0)
			for n, b := range m.batches {
				seen = max(seen, seqIn(b, w))
				expected := commits.until(b.At)
				if seen >= expected {
					continue
				}
				follows := slices.IndexFunc(m.batches[n:], func(b store.Batch[plan.Plan]) bool { return seqIn(b, w) >= expected })
				if follows < 0 {
					break
				}
				lag := m.received[n+follows].Sub(m.received[n])
				late, latest = late+1, max(latest, lag)
				if lag > b.Lag {
					t.Errorf("batch %d of %v lacks write %d of document %d: it followed %v later, want at most %v", n, b.At, expected, w, lag, b.Lag)
				}
			}
		}
	}
	t.Logf("%d listeners; %d late commits, by up to %v", len(all), late, latest)
}

func seqIn(b store.Batch[plan.Plan], w int) int64 {
	for _, c := range b.Canaries {
		if c.Replica == strconv.Itoa(w) {
			return c.Seq
		}
	}
	return 0
}

// until returns the number of commits until a time.
func (c commits) until(at time.Time) int64 {
	n, _ := slices.BinarySearchFunc(c, at, func(c, at time.Time) int {
		if c.After(at) {
			return 1
		}
		return -1
	})
	return int64(n)
}

// write writes a document repeatedly, with its sequence number, until ctx ends.
func write(ctx context.Context, t *testing.T, doc *firestore.DocumentRef) commits {
	t.Helper()
	var all commits
	for ctx.Err() == nil {
		r, err := doc.Set(context.WithoutCancel(ctx), map[string]any{"run": "r", "seq": int64(len(all) + 1)})
		if err != nil {
			t.Logf("write %d: %v", len(all)+1, err)
			continue
		}
		all = append(all, r.UpdateTime)
	}
	return all
}
