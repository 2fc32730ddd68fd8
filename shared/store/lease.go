package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
	"github.com/sluicegate/sluice/shared/usage"
)

// leaseDoc is the leased part of a hard quota. It contains a lost process until the period ends or
// [Store.ReleaseLeases] removes the process.
type leaseDoc struct {
	Held   map[string]int64 `firestore:"held"` // by process, or [ended]: requests that were or may be allowed
	EndsAt time.Time        `firestore:"ends_at"`

	// Since is the time of each process's last write, by the store's clock. It lacks processes of
	// earlier versions.
	Since map[string]time.Time `firestore:"since,omitempty"`
}

var errLease = errors.New("lease is negative or too large")

// sum rejects numbers that no process writes.
func (d leaseDoc) sum(process string) (own, others int64, err error) {
	for by, n := range d.Held {
		switch {
		case n < 0 || n > math.MaxInt64-others:
			return 0, 0, errLease
		case by == process:
			own = n
		default:
			others += n
		}
	}
	return own, others, nil
}

// Lease sets the number of requests that a process holds of a key's quota in a period. change
// receives the stored numbers and returns the new number. Each write depends on the version that was
// read, so delayed writes change nothing. If force is set, an unchanged number is written too, to
// invalidate delayed writes. Lease returns a conflict problem if all attempts lose their race.
func (s *Store) Lease(ctx context.Context, t usage.QuotaPeriod, process string, force bool, change func(own, others int64) int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	const tries, longest = 8, 50 * time.Millisecond
	var err error
	for range tries {
		if err = s.lease(ctx, t, process, force, change); !problem.Is(err, problem.Conflict) && !problem.Is(err, problem.AlreadyExists) && !problem.Is(err, problem.NotFound) {
			return err
		}
		if !reqctx.Sleep(ctx, rand.N(longest)) { //nolint:gosec // spreads retries; not for security
			return fmt.Errorf("lease %s: %w", t.ID(), problemOf(ctx.Err(), "lease"))
		}
	}
	return err
}

func (s *Store) lease(ctx context.Context, t usage.QuotaPeriod, process string, force bool, change func(own, others int64) int64) error {
	ref := s.leases().Doc(t.ID())
	docs, err := s.getAll(ctx, ref)
	if err != nil {
		return fmt.Errorf("read lease %s: %w", ref.ID, err)
	}
	d, err := orZero(shape[leaseDoc](docs[0]))
	if err != nil {
		return err
	}
	own, others, sumErr := d.sum(process)
	if sumErr != nil {
		return fmt.Errorf("read lease %s: %w", ref.ID, sumErr)
	}
	holds := change(own, others)
	switch {
	case holds == own && !force:
		return nil
	case d.EndsAt.IsZero():
		_, ends := t.Span()
		_, err = ref.Create(ctx, fire.Fields{"held": fire.Fields{process: holds}, "since": fire.Fields{process: fire.Now}, "ends_at": ends})
	default:
		_, err = ref.Update(ctx, fire.Fields{"held": fire.Fields{process: holds}, "since": fire.Fields{process: fire.Now}}, docs[0].Updated)
	}
	if err != nil {
		return fmt.Errorf("write lease %s: %w", ref.ID, problemOf(err, "lease"))
	}
	return nil
}

// ended is the entry for the requests that ended processes have spent.
const ended = "ended"

// endAtOnce is the number of leases per commit, and endCommits that of concurrent commits.
const endAtOnce, endCommits = 200, 8

// EndLeases releases the unspent requests of ended processes. It is idempotent, and later writes of
// these processes change nothing. It returns the leases that it could not end. No two leases of all
// may have the same key and period.
func (s *Store) EndLeases(ctx context.Context, all []usage.Ended) (rest []usage.Ended, err error) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(endCommits)
	for some := range slices.Chunk(all, endAtOnce) {
		g.Go(func() error {
			left, err := s.endBatch(ctx, some, 0)
			mu.Lock()
			defer mu.Unlock()
			rest = append(rest, left...)
			return err
		})
	}
	err = g.Wait()
	return rest, err
}

// endBatch ends leases in one commit. After a lost race, it ends each half separately.
func (s *Store) endBatch(ctx context.Context, some []usage.Ended, try int) (rest []usage.Ended, err error) {
	const tries, longest = 8, 50 * time.Millisecond
	err = s.tryEnd(ctx, some)
	lost := problem.Is(err, problem.Conflict) || problem.Is(err, problem.AlreadyExists) || problem.Is(err, problem.NotFound)
	switch {
	case err == nil:
		return nil, nil
	case !lost || len(some) == 1 && try == tries || !reqctx.Sleep(ctx, rand.N(longest)): //nolint:gosec // spreads retries; not for security
		return some, err
	case len(some) == 1:
		return s.endBatch(ctx, some, try+1)
	}
	half := len(some) / 2
	left, err := s.endBatch(ctx, some[:half], 0)
	right, errRight := s.endBatch(ctx, some[half:], 0)
	return append(left, right...), errors.Join(err, errRight)
}

// tryEnd skips damaged documents, which no process can lease from.
func (s *Store) tryEnd(ctx context.Context, some []usage.Ended) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	refs := make([]fire.Ref, len(some))
	for i, e := range some {
		refs[i] = s.leases().Doc(e.ID())
	}
	docs, err := s.db.Get(ctx, refs...)
	if err != nil {
		return fmt.Errorf("read leases: %w", problemOf(err, "lease"))
	}
	_, err = s.db.Transact(ctx, 1, func(context.Context, fire.Tx) (b fire.Batch, err error) {
		for i, e := range some {
			endLease(&b, docs[i], e)
		}
		return b, nil
	})
	if err != nil {
		return fmt.Errorf("end leases: %w", problemOf(err, "lease"))
	}
	return nil
}

// endLease writes even if the document does not contain the process, which invalidates delayed
// writes.
func endLease(b *fire.Batch, doc fire.Doc, e usage.Ended) {
	if !doc.Exists {
		_, ends := e.Span()
		b.Create(doc.Ref, leaseDoc{Held: map[string]int64{ended: 0}, EndsAt: ends})
		return
	}
	d, err := shape[leaseDoc](doc)
	if err != nil {
		return
	}
	if own, _, err := d.sum(e.Process); err == nil {
		b.Update(doc.Ref, d.end(min(own, e.Spent), e.Process), doc.Updated)
	}
}

func (d leaseDoc) end(spent int64, processes ...string) fire.Fields {
	held, since := fire.Fields{ended: d.Held[ended] + spent}, fire.Fields{}
	for _, p := range processes {
		held[p], since[p] = fire.Remove, fire.Remove
	}
	return fire.Fields{"held": held, "since": since}
}

// DeleteLeases deletes leases of periods that ended before the given time.
func (s *Store) DeleteLeases(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.prune(ctx, "leases", s.leases().Where("ends_at", "<", before), limit)
}
