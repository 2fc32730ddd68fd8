package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	// bulkTimeout applies to calls that read or write many documents.
	bulkTimeout = 60 * time.Second
	// maxWrites is the maximum number of writes in a transaction; Firestore's limit is 500.
	maxWrites = 400
)

// ErrNotClosed is returned if a day's counters cannot be compacted yet by the store's clock.
var ErrNotClosed = errors.New("the day is not closed yet")

type counterDoc struct {
	Day    string `firestore:"day"`
	Source string `firestore:"source"`
	Shard  int64  `firestore:"shard"`
	Counts []byte `firestore:"counts"`
}

func counterToDoc(c usage.Counter) counterDoc {
	return counterDoc{Day: c.Day.String(), Source: string(c.Source), Shard: int64(c.Shard), Counts: c.Counts}
}

// CounterVersion is the version of a stored counter; zero if it is not stored yet.
type CounterVersion struct{ at time.Time }

// Time returns the commit time by the store's clock.
func (v CounterVersion) Time() time.Time { return v.at }

func (s *Store) counterRef(day usage.Day, source usage.CounterSource, shard int) fire.Ref {
	return s.counters().Doc(usage.CounterID(day, source, shard))
}

// WriteCounter replaces the counter if base is its stored version, so a delayed write cannot reduce
// totals. Otherwise it returns a conflict problem; read [Store.CounterVersion] and retry.
func (s *Store) WriteCounter(ctx context.Context, c usage.Counter, base CounterVersion) (CounterVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ref := s.counterRef(c.Day, c.Source, c.Shard)
	var at time.Time
	var err error
	if base == (CounterVersion{}) {
		at, err = ref.Create(ctx, counterToDoc(c))
	} else {
		at, err = ref.Update(ctx, fire.Fields{"counts": []byte(c.Counts)}, base.at)
	}
	if err != nil {
		return CounterVersion{}, fmt.Errorf("write counter %s: %w", ref.ID, problemOf(err, "counter"))
	}
	return CounterVersion{at}, nil
}

// CounterVersion returns the stored version of a counter.
func (s *Store) CounterVersion(ctx context.Context, day usage.Day, source usage.CounterSource, shard int) (CounterVersion, error) {
	at, err := orZero(get(ctx, s.counterRef(day, source, shard), "counter", versionOf))
	return CounterVersion{at}, err
}

// VersionAt returns the version of a write, for fake stores that inject faults.
func VersionAt(t time.Time) CounterVersion { return CounterVersion{t} }

// EachCounter calls use for each counter of the days first to last, until use returns an error. It
// reads one snapshot, so it never passes a sum together with the counters in it. A damaged counter
// has no counts.
func (s *Store) EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	for c, err := range s.eachCounter(ctx, s.counters().Where("day", ">=", first.String()).Where("day", "<=", last.String())) {
		if err != nil {
			return fmt.Errorf("read counters from %s to %s: %w", first, last, err)
		}
		if err := use(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) eachCounter(ctx context.Context, q fire.Query) iter.Seq2[usage.Counter, error] {
	return func(yield func(usage.Counter, error) bool) {
		for doc, err := range q.Each(ctx) {
			if err != nil {
				yield(usage.Counter{}, problemOf(err, "counter"))
				return
			}
			if c, ok := s.readCounter(doc); ok && !yield(c, nil) {
				return
			}
		}
	}
}

func counterOf(id string) (c usage.Counter, ok bool) {
	day, rest, _ := strings.Cut(id, ".")
	source, shard, _ := strings.Cut(rest, ".")
	on, noDay := usage.ParseDay(day)
	n, noNumber := strconv.Atoi(shard)
	return usage.Counter{Day: on, Source: usage.CounterSource(source), Shard: n}, noDay == nil && noNumber == nil
}

func (s *Store) readCounter(doc fire.Doc) (c usage.Counter, ok bool) {
	if c, ok = counterOf(doc.ID); !ok {
		return c, false
	}
	d, err := shape[counterDoc](doc)
	if err == nil {
		err = usage.Packed(d.Counts).Check()
	}
	if err != nil {
		s.countDamaged("counter")
		c.Damaged = fmt.Errorf("read counter %s: %w", doc.ID, err)
		return c, true
	}
	c.Counts = d.Counts
	return c, true
}

// Damaged is the outcome that [Store.Observe] reports for a damaged document.
const Damaged = "damaged"

func (s *Store) countDamaged(kind string) { s.db.Report("read_"+kind, Damaged) }

// OldestCounter returns the first day that has a counter.
func (s *Store) OldestCounter(ctx context.Context) (usage.Day, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for c, err := range s.eachCounter(ctx, s.counters().OrderBy("day")) {
		if err != nil {
			return 0, fmt.Errorf("find the oldest counter: %w", err)
		}
		return c.Day, nil
	}
	return 0, problem.New(problem.NotFound, "The store contains no counter.")
}

// CompactCounters adds the counters of sources to the sum of a shard and closed day, and deletes
// them. Each transaction does both for up to [maxWrites] sources, so totals never change for
// readers. Damaged counters remain; if the sum is damaged, all counters remain. CompactCounters may
// return [ErrNotClosed] or [usage.ErrTooMany].
//
// It reads counters by ID: a query in a transaction would lock its whole range.
func (s *Store) CompactCounters(ctx context.Context, day usage.Day, shard int, sources []usage.CounterSource) error {
	for some := range slices.Chunk(sources, maxWrites) {
		op := fmt.Sprintf("compact shard %d of %s", shard, day)
		err := s.transact(ctx, op, func(_ context.Context, tx fire.Tx, b *batch) error {
			return s.compact(tx, b, day, shard, some)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) compact(tx fire.Tx, b *batch, day usage.Day, shard int, sources []usage.CounterSource) error {
	var refs []fire.Ref
	for _, source := range append(usage.CompactedSources(), sources...) {
		refs = append(refs, s.counterRef(day, source, shard))
	}
	docs, err := tx.Get(refs...)
	if err != nil {
		return err
	}
	var old []usage.Counter
	left := false
	for _, doc := range docs {
		if !day.Closed(doc.Read) {
			return ErrNotClosed
		}
		if !doc.Exists {
			continue
		}
		c, _ := s.readCounter(doc)
		switch {
		case c.Damaged != nil && c.Source.Compacted():
			return nil
		case c.Damaged != nil:
			continue
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
	written := map[usage.CounterSource]bool{}
	for _, c := range sum {
		written[c.Source] = true
		b.Set(s.counterRef(c.Day, c.Source, c.Shard), counterToDoc(c))
	}
	for _, c := range old {
		if !written[c.Source] {
			b.Delete(s.counterRef(c.Day, c.Source, c.Shard))
		}
	}
	return nil
}

// DeleteCounters deletes up to [maxWrites] undamaged counters of earlier days.
func (s *Store) DeleteCounters(ctx context.Context, before usage.Day) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	var old []fire.Ref
	for c, err := range s.eachCounter(ctx, s.counters().Where("day", "<", before.String())) {
		if err != nil {
			return 0, fmt.Errorf("find old counters: %w", err)
		}
		if c.Damaged == nil {
			old = append(old, s.counterRef(c.Day, c.Source, c.Shard))
		}
		if len(old) == maxWrites {
			break
		}
	}
	return s.deleteOld(ctx, "counters", len(old), old)
}
