package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/usage"
)

// What time brings about is announced once: each announcement is written in one transaction
// with what remembers it. That outlives the announcement, which is deleted when it is sent.

// errKept says that it was announced before.
var errKept = errors.New("it was announced before")

// expiryDoc is a document of marks/{moment}, such as marks/expiring-14: every key whose
// expiry is not behind this place has had its moment.
type expiryDoc struct {
	Expires time.Time `firestore:"expires"`
	Key     string    `firestore:"key"` // the last one of that very expiry; "" is all of them
}

func (s *Store) mark(name string) *firestore.DocumentRef {
	return s.client.Collection("marks").Doc(name)
}

// expiryLag is how far behind the store's clock moments are looked for: a key's expiry is
// checked by another clock, and may be written a little later than it was.
const expiryLag = 30 * time.Second

// markEvery is how often a mark moves on when nothing was announced. What lies between is
// read again with each look, and holds nothing.
const markEvery = time.Hour

// AnnounceExpiries announces, for up to limit keys, that a moment of theirs has come since
// the last time, and tells how many; fewer than limit are the last. It goes by the store's
// clock. Moments before the first time, or of more than [event.Kept] ago, are announced by
// nobody. A revoked key has none.
//
// It reads the mark and the keys between there and now: none of those mostly, and each key
// once for each moment, however many keys there are.
func (s *Store) AnnounceExpiries(ctx context.Context, e event.Expiry, limit int) (announced int, err error) {
	mark := s.mark(e.Name)
	idle, err := s.nothingExpires(ctx, mark, e)
	if idle || err != nil {
		return 0, err
	}
	err = s.transact(ctx, "announce "+e.Name, func(_ context.Context, tx *firestore.Transaction, b *batch) error {
		announced = 0
		span, err := s.expirySpan(mark, e, tx.GetAll)
		if err != nil {
			return err
		}
		keys, err := tx.Documents(s.expiringKeys(span).Limit(limit)).GetAll()
		if err != nil {
			return problemOf(err, "key")
		}
		next := expiryDoc{Expires: span.until}
		for _, snap := range keys {
			k, err := readKey(snap)
			if err != nil {
				return err
			}
			if k.Status != apikey.Revoked {
				s.announce(b, e.Of(k))
			}
			announced++
		}
		if len(keys) == limit {
			last := keys[limit-1]
			next = expiryDoc{Expires: last.Data()["expires_at"].(time.Time), Key: last.Ref.ID} //nolint:forcetypeassert // the query is by it
		}
		b.set(mark, next)
		return nil
	})
	return announced, err
}

// nothingExpires tells, without a lock, whether there is nothing to write.
func (s *Store) nothingExpires(ctx context.Context, mark *firestore.DocumentRef, e event.Expiry) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	span, err := s.expirySpan(mark, e, func(refs []*firestore.DocumentRef) ([]*firestore.DocumentSnapshot, error) {
		return s.client.GetAll(ctx, refs)
	})
	if err != nil {
		return false, err
	}
	if span.first || span.from.Key != "" || span.until.Sub(span.from.Expires) > markEvery {
		return false, nil
	}
	found, err := snapshots(ctx, s.expiringKeys(span).Limit(1))
	return len(found) == 0, err
}

// expirySpan is the expiries of the keys that are to be looked at now.
type expirySpan struct {
	from  expiryDoc
	until time.Time
	first bool // nothing was ever announced, nor is now
}

// expirySpan reads up to where moments were announced, and the store's time.
func (s *Store) expirySpan(mark *firestore.DocumentRef, e event.Expiry, getAll func([]*firestore.DocumentRef) ([]*firestore.DocumentSnapshot, error)) (expirySpan, error) {
	snaps, err := getAll([]*firestore.DocumentRef{mark})
	if err != nil {
		return expirySpan{}, fmt.Errorf("get mark %s: %w", e.Name, problemOf(err, "mark"))
	}
	until := snaps[0].ReadTime.Add(e.Before() - expiryLag)
	if !snaps[0].Exists() {
		return expirySpan{from: expiryDoc{Expires: until}, until: until, first: true}, nil
	}
	from, err := shape[expiryDoc](snaps[0])
	if oldest := until.Add(-event.Kept); from.Expires.Before(oldest) {
		from = expiryDoc{Expires: oldest}
	}
	return expirySpan{from: from, until: until}, err
}

// expiringKeys finds the keys of a span, in their order.
func (s *Store) expiringKeys(span expirySpan) firestore.Query {
	q := s.keys().Where("expires_at", "<=", span.until).OrderBy("expires_at", firestore.Asc).OrderBy(firestore.DocumentID, firestore.Asc)
	if span.from.Key != "" {
		return q.StartAfter(span.from.Expires, s.keys().Doc(span.from.Key))
	}
	return q.Where("expires_at", ">", span.from.Expires)
}

// reachedDoc is a document of thresholds/{first day}.{period}.{prefix}: how much of a quota
// was announced to be used up in that period.
type reachedDoc struct {
	Percent   int       `firestore:"percent"`
	ExpiresAt time.Time `firestore:"expires_at"` // when the memory may go
}

func (s *Store) thresholds() *firestore.CollectionRef { return s.client.Collection("thresholds") }

// Spent is a quota of which enough is used up to tell of it.
type Spent struct {
	Term  usage.Term
	Event event.Announcement
}

// AnnounceQuotas announces quotas of which a part is used up in their terms, but those of
// which as much was announced before, all in one commit, and tells how many. There are
// some hundred at most.
func (s *Store) AnnounceQuotas(ctx context.Context, all []Spent) (announced int, err error) {
	refs := make([]*firestore.DocumentRef, len(all))
	for i, one := range all {
		refs[i] = s.thresholds().Doc(one.Term.ID())
	}
	err = s.transact(ctx, fmt.Sprintf("announce %d quotas", len(all)), func(_ context.Context, tx *firestore.Transaction, b *batch) error {
		announced = 0
		snaps, err := tx.GetAll(refs)
		if err != nil {
			return err
		}
		for i, one := range all {
			var d reachedDoc
			if snaps[i].Exists() {
				if d, err = shape[reachedDoc](snaps[i]); err != nil {
					return err
				}
			}
			if d.Percent >= one.Event.Quota.Percent {
				continue
			}
			_, ends := one.Term.Span()
			s.announce(b, one.Event)
			b.set(refs[i], reachedDoc{Percent: one.Event.Quota.Percent, ExpiresAt: ends.Add(event.Kept)})
			announced++
		}
		return nil
	})
	return announced, err
}

// DeleteThresholds deletes up to limit memories of terms that ended more than a day before a
// time, and tells how many.
func (s *Store) DeleteThresholds(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.prune(ctx, "thresholds", s.thresholds().Where("expires_at", "<", before), limit)
}

// gatesDoc is the document marks/gates.
type gatesDoc struct {
	Denying bool      `firestore:"denying"`
	Since   time.Time `firestore:"since"`
}

// AnnounceGates announces that every gate denies, or does not any more, if the last that was
// announced is not the same, and tells whether it did. An installation begins with gates that
// do not.
func (s *Store) AnnounceGates(ctx context.Context, denying bool, checkers int) (bool, error) {
	ref := s.mark("gates")
	err := s.transact(ctx, "announce gates", func(_ context.Context, tx *firestore.Transaction, b *batch) error {
		snaps, err := tx.GetAll([]*firestore.DocumentRef{ref})
		if err != nil {
			return err
		}
		var is gatesDoc
		if snaps[0].Exists() {
			if is, err = shape[gatesDoc](snaps[0]); err != nil {
				return err
			}
		}
		if is.Denying == denying {
			return errKept
		}
		at := snaps[0].ReadTime.UTC().Truncate(time.Microsecond)
		t := event.GateRecovered
		if denying {
			t, is.Since = event.GateDenying, at
		}
		s.announce(b, event.OfGates(t, event.Gates{Checkers: checkers, Since: is.Since}, at))
		b.set(ref, gatesDoc{Denying: denying, Since: is.Since})
		return nil
	})
	if errors.Is(err, errKept) {
		return false, nil
	}
	return err == nil, err
}

// KeysOf reads keys with one call and one document read a key. Those that are gone are left
// out.
func (s *Store) KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error) {
	if len(prefixes) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	refs := make([]*firestore.DocumentRef, len(prefixes))
	for i, p := range prefixes {
		refs[i] = s.keys().Doc(string(apikey.IDOf(p)))
	}
	snaps, err := s.client.GetAll(ctx, refs)
	if err != nil {
		return nil, fmt.Errorf("get keys: %w", problemOf(err, "key"))
	}
	return readAll(slices.DeleteFunc(snaps, func(snap *firestore.DocumentSnapshot) bool { return !snap.Exists() }), readKey)
}
