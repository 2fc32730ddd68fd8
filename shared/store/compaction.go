package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	// bulkTimeout bounds a call that reads or writes many documents.
	bulkTimeout = 60 * time.Second
	// maxWrites bounds the writes of one transaction, below Firestore's 500.
	maxWrites = 400
)

// ErrNotClosed says that a day's counters may not be compacted yet by the
// store's own clock, whatever the caller's says.
var ErrNotClosed = errors.New("the day is not closed yet")

func (d counterDoc) counter() (usage.Counter, error) {
	c := usage.Counter{Source: usage.Source(d.Source), Shard: int(d.Shard), Counts: d.Counts}
	var err error
	if c.Day, err = usage.ParseDay(d.Day); err != nil {
		return usage.Counter{}, err
	}
	return c, c.Counts.Check()
}

// EachCounter hands every counter of the days first to last to use, in no
// particular order. It is one query, and a query's answer is what was stored at
// one moment: sources and what they are compacted to are never seen together.
// One that cannot be read, or an error of use, ends it: sums without it would be
// wrong. What has no counter's id was written by nobody here and is passed over.
func (s *Store) EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	it := s.counters().Where("day", ">=", first.String()).Where("day", "<=", last.String()).Documents(ctx)
	defer it.Stop()
	for {
		snap, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read counters from %s to %s: %w", first, last, known(err, "counter"))
		}
		if !isCounter(snap.Ref.ID) {
			continue
		}
		c, err := readCounter(snap)
		if err != nil {
			return err
		}
		if err := use(c); err != nil {
			return err
		}
	}
}

// isCounter tells whether an id is one that a counter can have.
func isCounter(id string) bool {
	day, rest, _ := strings.Cut(id, ".")
	_, err := usage.ParseDay(day)
	_, shard, ok := strings.Cut(rest, ".")
	_, notNumber := strconv.Atoi(shard)
	return err == nil && ok && notNumber == nil
}

func readCounter(snap *firestore.DocumentSnapshot) (usage.Counter, error) {
	var d counterDoc
	err := snap.DataTo(&d)
	var c usage.Counter
	if err == nil {
		c, err = d.counter()
	}
	if err != nil {
		return usage.Counter{}, fmt.Errorf("read counter %s: %w", snap.Ref.ID, err)
	}
	return c, nil
}

// OldestCounter gives the first day that has a counter. Problem: not_found when
// there are no counters.
func (s *Store) OldestCounter(ctx context.Context) (usage.Day, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	it := s.counters().OrderBy("day", firestore.Asc).Documents(ctx)
	defer it.Stop()
	for {
		snap, err := it.Next()
		switch {
		case errors.Is(err, iterator.Done):
			return 0, problem.New(problem.NotFound, "There is no counter.")
		case err != nil:
			return 0, fmt.Errorf("find the oldest counter: %w", known(err, "counter"))
		case isCounter(snap.Ref.ID):
			c, err := readCounter(snap)
			return c.Day, err
		}
	}
}

// CompactCounters replaces counters of some sources, of one shard of a closed
// day, by one that holds their sum, together with what was compacted before, in
// one transaction: whoever reads or listens sees either the ones or the other,
// and no sum moves. More sources than fit one transaction take some. Sources that
// have no such counter, any more or at all, count nothing.
//
// Counters are read by their names: a query in a transaction would lock its whole
// range, and shards could not be compacted at once. Errors: [ErrNotClosed],
// [usage.ErrDamaged], [usage.ErrTooMany].
func (s *Store) CompactCounters(ctx context.Context, day usage.Day, shard int, sources []usage.Source) error {
	for some := range slices.Chunk(sources, maxWrites) {
		err := s.transact(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			return s.compact(tx, day, shard, some)
		})
		if err != nil {
			return fmt.Errorf("compact shard %d of %s: %w", shard, day, err)
		}
	}
	return nil
}

func (s *Store) compact(tx *firestore.Transaction, day usage.Day, shard int, sources []usage.Source) error {
	var refs []*firestore.DocumentRef
	for _, source := range append(usage.CompactedSources(), sources...) {
		refs = append(refs, s.counterRef(day, source, shard))
	}
	snaps, err := tx.GetAll(refs)
	if err != nil {
		return err
	}
	var old []usage.Counter
	left := false
	for _, snap := range snaps {
		if !day.Closed(snap.ReadTime) {
			return ErrNotClosed
		}
		if !snap.Exists() {
			continue
		}
		c, err := readCounter(snap)
		if err != nil {
			return err
		}
		left = left || !c.Source.Compacted()
		old = append(old, c)
	}
	if !left {
		return nil
	}
	sum, err := usage.Compact(day, shard, old)
	if err != nil {
		return err
	}
	return s.replaceCounters(tx, old, sum)
}

// replaceCounters writes some counters in place of others.
func (s *Store) replaceCounters(tx *firestore.Transaction, old, with []usage.Counter) error {
	written := map[usage.Source]bool{}
	for _, c := range with {
		written[c.Source] = true
		doc := counterDoc{Day: c.Day.String(), Source: string(c.Source), Shard: int64(c.Shard), Counts: c.Counts}
		if err := tx.Set(s.counterRef(c.Day, c.Source, c.Shard), doc); err != nil {
			return err
		}
	}
	for _, c := range old {
		if written[c.Source] {
			continue
		}
		if err := tx.Delete(s.counterRef(c.Day, c.Source, c.Shard)); err != nil {
			return err
		}
	}
	return nil
}

// DeleteCounters deletes counters of the days before one, as many as fit a
// transaction, and tells how many; none means that none are left.
func (s *Store) DeleteCounters(ctx context.Context, before usage.Day) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	old := s.counters().Where("day", "<", before.String()).Select().Limit(maxWrites)
	snaps, err := old.Documents(ctx).GetAll()
	if err != nil {
		return 0, fmt.Errorf("find counters before %s: %w", before, known(err, "counter"))
	}
	if len(snaps) == 0 {
		return 0, nil
	}
	err = s.transact(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		for _, snap := range snaps {
			if err := tx.Delete(snap.Ref); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("delete counters before %s: %w", before, err)
	}
	return len(snaps), nil
}
