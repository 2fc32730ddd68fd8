package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
	"github.com/sluicegate/sluice/shared/usage"
)

type rollupDoc struct {
	Days     []byte `firestore:"days"` // packed usage.History
	Oldest   string `firestore:"oldest"`
	LastSeen string `firestore:"last_seen"`
}

func rollupToDoc(h usage.History) rollupDoc {
	return rollupDoc{Days: h.Pack(), Oldest: h[0].Day.String(), LastSeen: lastDay(h)}
}

// refsOf returns the documents of keys in a collection.
func refsOf(all fire.Query, prefixes []apikey.Prefix) []fire.Ref {
	refs := make([]fire.Ref, len(prefixes))
	for i, p := range prefixes {
		refs[i] = all.Doc(string(apikey.IDOf(p)))
	}
	return refs
}

func readRollup(doc fire.Doc) (usage.History, error) {
	d, err := orZero(shape[rollupDoc](doc))
	if err != nil {
		return nil, err
	}
	h, err := usage.UnpackHistory(d.Days)
	if err != nil {
		return nil, fmt.Errorf("read rollup %s: %w", doc.ID, err)
	}
	return h, nil
}

// Rollups returns the histories of keys, in the order of prefixes, for one document read each. A
// missing or damaged rollup is an empty history.
func (s *Store) Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error) {
	if len(prefixes) == 0 {
		return nil, nil
	}
	docs, err := s.getAll(ctx, refsOf(s.rollups(), prefixes)...)
	if err != nil {
		return nil, fmt.Errorf("get rollups: %w", err)
	}
	histories, _ := s.readRollups(docs)
	return histories, nil
}

// DamagedError is returned by calls that skipped damaged documents and did everything else.
type DamagedError struct{ Documents []error }

func (e *DamagedError) Error() string { return errors.Join(e.Documents...).Error() }

// readRollups counts damaged rollups. The errors are in the order of docs.
func (s *Store) readRollups(docs []fire.Doc) (histories []usage.History, damaged []error) {
	histories, damaged = make([]usage.History, len(docs)), make([]error, len(docs))
	for i, doc := range docs {
		if histories[i], damaged[i] = readRollup(doc); damaged[i] != nil {
			s.countDamaged("rollup")
		}
	}
	return histories, damaged
}

func withoutNil(damaged []error) error {
	if damaged = slices.DeleteFunc(damaged, func(err error) bool { return err == nil }); len(damaged) > 0 {
		return &DamagedError{damaged}
	}
	return nil
}

// UpdateRollups replaces the rollups of keys with the results of change, in one transaction. It
// deletes empty histories. It skips damaged rollups, and then returns a [DamagedError].
func (s *Store) UpdateRollups(ctx context.Context, prefixes []apikey.Prefix, change func(apikey.Prefix, usage.History) usage.History) error {
	if len(prefixes) == 0 {
		return nil
	}
	refs := refsOf(s.rollups(), prefixes)
	op := fmt.Sprintf("update %d rollups", len(prefixes))
	var damaged []error
	err := s.transact(ctx, op, func(_ context.Context, tx fire.Tx, b *batch) error {
		docs, err := tx.Get(refs...)
		if err != nil {
			return err
		}
		var stored []usage.History
		stored, damaged = s.readRollups(docs)
		seen := map[string]string{}
		for i, p := range prefixes {
			if damaged[i] != nil {
				continue
			}
			changed := change(p, stored[i])
			switch {
			case changed.Equal(stored[i]):
				continue
			case len(changed) == 0:
				b.Delete(refs[i])
			default:
				b.Set(refs[i], rollupToDoc(changed))
			}
			if last := lastDay(changed); last != lastDay(stored[i]) {
				seen[refs[i].ID] = last
			}
		}
		return s.setLastSeen(tx, b, seen)
	})
	if err != nil {
		return err
	}
	return withoutNil(damaged)
}

// RollupsOlder returns up to limit keys whose rollups contain earlier days. It skips damaged
// rollups, and then also returns a [DamagedError].
func (s *Store) RollupsOlder(ctx context.Context, before usage.Day, limit int) (prefixes []apikey.Prefix, err error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	var damaged []error
	for doc, err := range s.rollups().Where("oldest", "<", before.String()).Each(ctx) {
		if err != nil {
			return nil, fmt.Errorf("find rollups from before %s: %w", before, problemOf(err, "rollup"))
		}
		prefix, ok := apikey.ID(doc.ID).Prefix()
		_, wrong := s.readRollups([]fire.Doc{doc})
		switch {
		case wrong[0] != nil:
			damaged = append(damaged, wrong[0])
		case ok:
			prefixes = append(prefixes, prefix)
		}
		if len(prefixes) == limit {
			break
		}
	}
	return prefixes, withoutNil(damaged)
}

type settledDoc struct {
	Settled string `firestore:"settled"`
}

func (s *Store) settledRef() fire.Ref { return s.mark("usage") }

// SettledDay returns the last finalized day. All counters of that day and earlier days are compacted
// and included in the rollups, and neither changes again.
func (s *Store) SettledDay(ctx context.Context) (usage.Day, error) {
	d, err := get(ctx, s.settledRef(), "settled day", shape[settledDoc])
	if err != nil {
		return 0, err
	}
	return usage.ParseDay(d.Settled)
}

// SettleDay finalizes a day. The stored day never decreases. SettleDay may return [ErrNotClosed].
func (s *Store) SettleDay(ctx context.Context, day usage.Day) error {
	return s.transact(ctx, "finalize "+day.String(), func(_ context.Context, tx fire.Tx, b *batch) error {
		docs, err := tx.Get(s.settledRef())
		if err != nil {
			return err
		}
		if !day.Closed(docs[0].Read) {
			return ErrNotClosed
		}
		d, err := orZero(shape[settledDoc](docs[0]))
		if err != nil {
			return err
		}
		if day.String() > d.Settled {
			b.Set(s.settledRef(), settledDoc{Settled: day.String()})
		}
		return nil
	})
}

// incompleteDoc is not a part of marks/usage, because earlier versions replace that document.
type incompleteDoc struct {
	Days []string `firestore:"days"`
}

// MarkIncomplete records that the rollups lack counts of a finalized day. It removes days before
// earliest.
func (s *Store) MarkIncomplete(ctx context.Context, day, earliest usage.Day) error {
	ref := s.mark("incomplete")
	return s.transact(ctx, "mark "+day.String()+" as incomplete", func(_ context.Context, tx fire.Tx, b *batch) error {
		d, err := orZero(txGet(tx, ref, "mark", shape[incompleteDoc]))
		if err != nil {
			return err
		}
		days := slices.DeleteFunc(append(d.Days, day.String()), func(one string) bool { return one < earliest.String() })
		slices.Sort(days)
		b.Set(ref, incompleteDoc{Days: slices.Compact(days)})
		return nil
	})
}

// IncompleteDays returns the days recorded by [Store.MarkIncomplete].
func (s *Store) IncompleteDays(ctx context.Context) ([]usage.Day, error) {
	d, err := orZero(get(ctx, s.mark("incomplete"), "mark", shape[incompleteDoc]))
	if err != nil {
		return nil, err
	}
	var days []usage.Day
	for _, text := range d.Days {
		day, err := usage.ParseDay(text)
		if err != nil {
			return nil, err
		}
		days = append(days, day)
	}
	return days, nil
}
