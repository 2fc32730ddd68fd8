package store

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// rollupDoc is a document of rollups/{key id}.
type rollupDoc struct {
	Days     []byte `firestore:"days"`      // usage.History, packed; not indexed
	Oldest   string `firestore:"oldest"`    // YYYY-MM-DD, the first of days
	LastSeen string `firestore:"last_seen"` // YYYY-MM-DD, the last of days
}

func rollupToDoc(h usage.History) rollupDoc {
	return rollupDoc{Days: h.Pack(), Oldest: h[0].Day.String(), LastSeen: h[len(h)-1].Day.String()}
}

func (s *Store) rollups() *firestore.CollectionRef { return s.client.Collection("rollups") }

func (s *Store) rollupRefs(prefixes []apikey.Prefix) []*firestore.DocumentRef {
	refs := make([]*firestore.DocumentRef, len(prefixes))
	for i, p := range prefixes {
		refs[i] = s.rollups().Doc(string(apikey.IDOf(p)))
	}
	return refs
}

// readRollup reads what a GetAll gave; a key without a document has no history.
func readRollup(snap *firestore.DocumentSnapshot) (usage.History, error) {
	if !snap.Exists() {
		return nil, nil
	}
	d, err := shape[rollupDoc](snap)
	if err != nil {
		return nil, err
	}
	h, err := usage.UnpackHistory(d.Days)
	if err != nil {
		return nil, fmt.Errorf("read rollup %s: %w", snap.Ref.ID, err)
	}
	return h, nil
}

// Rollups reads the histories of keys, in the order of prefixes, with one call
// and one document read a key. A key that was never rolled up has an empty one.
func (s *Store) Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error) {
	if len(prefixes) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snaps, err := s.client.GetAll(ctx, s.rollupRefs(prefixes))
	if err != nil {
		return nil, fmt.Errorf("get rollups: %w", problemOf(err, "rollup"))
	}
	return readAll(snaps, readRollup)
}

// UpdateRollups changes the rollups of some keys in one transaction: change gets
// what is stored of a key and gives what shall be; it may run more than once. What
// stays as it was is not written, and a history that becomes empty is deleted.
func (s *Store) UpdateRollups(ctx context.Context, prefixes []apikey.Prefix, change func(apikey.Prefix, usage.History) usage.History) error {
	if len(prefixes) == 0 {
		return nil
	}
	refs := s.rollupRefs(prefixes)
	op := fmt.Sprintf("update %d rollups", len(prefixes))
	return s.transact(ctx, op, func(_ context.Context, tx *firestore.Transaction, b *batch) error {
		snaps, err := tx.GetAll(refs)
		if err != nil {
			return err
		}
		stored, err := readAll(snaps, readRollup)
		if err != nil {
			return err
		}
		for i, p := range prefixes {
			switch changed := change(p, stored[i]); {
			case changed.Equal(stored[i]):
			case len(changed) == 0:
				b.delete(refs[i])
			default:
				b.set(refs[i], rollupToDoc(changed))
			}
		}
		return nil
	})
}

// RollupsOlder finds keys whose rollups hold days before one, at most limit.
func (s *Store) RollupsOlder(ctx context.Context, before usage.Day, limit int) ([]apikey.Prefix, error) {
	q := s.rollups().Where("oldest", "<", before.String()).Select().Limit(limit)
	prefixes, err := find(ctx, q, func(snap *firestore.DocumentSnapshot) (apikey.Prefix, error) {
		prefix, ok := apikey.ID(snap.Ref.ID).Prefix()
		if !ok {
			return "", fmt.Errorf("rollup %s is of no key", snap.Ref.ID)
		}
		return prefix, nil
	})
	if err != nil {
		return nil, fmt.Errorf("find rollups from before %s: %w", before, err)
	}
	return prefixes, nil
}

// settledDoc is the document marks/usage.
type settledDoc struct {
	Settled string `firestore:"settled"` // YYYY-MM-DD
}

func (s *Store) settledRef() *firestore.DocumentRef { return s.mark("usage") }

// SettledDay gives the last day that is settled, like all before it: its counters
// are compacted, the rollups hold all of them, and neither will change again.
// Problem: not_found before the first one.
func (s *Store) SettledDay(ctx context.Context) (usage.Day, error) {
	d, err := get(ctx, s.settledRef(), "settled day", shape[settledDoc])
	if err != nil {
		return 0, err
	}
	return usage.ParseDay(d.Settled)
}

// SettleDay notes that a day is settled; it never goes back. Error: [ErrNotClosed].
func (s *Store) SettleDay(ctx context.Context, day usage.Day) error {
	return s.transact(ctx, "settle "+day.String(), func(_ context.Context, tx *firestore.Transaction, b *batch) error {
		snaps, err := tx.GetAll([]*firestore.DocumentRef{s.settledRef()})
		if err != nil {
			return err
		}
		if !day.Closed(snaps[0].ReadTime) {
			return ErrNotClosed
		}
		var d settledDoc
		if snaps[0].Exists() {
			if err := snaps[0].DataTo(&d); err != nil {
				return err
			}
		}
		if day.String() > d.Settled {
			b.set(s.settledRef(), settledDoc{Settled: day.String()})
		}
		return nil
	})
}
