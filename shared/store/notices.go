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

// Events that are not caused by a call are announced once: the transaction of an announcement also
// writes a mark, which remains when the announcement is deleted.

var errAlreadyAnnounced = errors.New("already announced")

// expiryDoc is the position up to which expiries are announced.
type expiryDoc struct {
	Expires time.Time `firestore:"expires"`
	Key     string    `firestore:"key"` // last announced key with this expiry; "" if all are announced
}

func (s *Store) mark(name string) *firestore.DocumentRef {
	return s.client.Collection("marks").Doc(name)
}

// expiryLag is the delay of announcements: a key may be written slightly after another clock
// validated its expiry.
const expiryLag = 30 * time.Second

// advanceInterval is the interval at which a position advances without announcements.
const advanceInterval = time.Hour

// AnnounceExpiries announces the event e for up to limit keys that have reached it since the last
// call, by the store's clock. It ignores revoked keys, events before the first call, and events more
// than [event.Retention] ago.
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

// nothingExpires reports, without locks, whether there is nothing to write.
func (s *Store) nothingExpires(ctx context.Context, mark *firestore.DocumentRef, e event.Expiry) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	span, err := s.expirySpan(mark, e, func(refs []*firestore.DocumentRef) ([]*firestore.DocumentSnapshot, error) {
		return s.client.GetAll(ctx, refs)
	})
	if err != nil {
		return false, err
	}
	if span.first || span.from.Key != "" || span.until.Sub(span.from.Expires) > advanceInterval {
		return false, nil
	}
	found, err := snapshots(ctx, s.expiringKeys(span).Limit(1))
	return len(found) == 0, err
}

type expirySpan struct {
	from  expiryDoc
	until time.Time
	first bool
}

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
	if oldest := until.Add(-event.Retention); from.Expires.Before(oldest) {
		from = expiryDoc{Expires: oldest}
	}
	return expirySpan{from: from, until: until}, err
}

func (s *Store) expiringKeys(span expirySpan) firestore.Query {
	q := s.keys().Where("expires_at", "<=", span.until).OrderBy("expires_at", firestore.Asc).OrderBy(firestore.DocumentID, firestore.Asc)
	if span.from.Key != "" {
		return q.StartAfter(span.from.Expires, s.keys().Doc(span.from.Key))
	}
	return q.Where("expires_at", ">", span.from.Expires)
}

type thresholdDoc struct {
	Percent   int       `firestore:"percent"`
	ExpiresAt time.Time `firestore:"expires_at"`
}

func (s *Store) thresholds() *firestore.CollectionRef { return s.client.Collection("thresholds") }

// QuotaCrossing is a quota whose use has reached a threshold.
type QuotaCrossing struct {
	Term  usage.QuotaPeriod
	Event event.OutboxEntry
}

// AnnounceQuotas announces the quotas whose percentage is not announced yet. It accepts a few
// hundred quotas. It returns the number of announcements.
func (s *Store) AnnounceQuotas(ctx context.Context, all []QuotaCrossing) (announced int, err error) {
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
			var d thresholdDoc
			if snaps[i].Exists() {
				if d, err = shape[thresholdDoc](snaps[i]); err != nil {
					return err
				}
			}
			if d.Percent >= one.Event.Quota.Percent {
				continue
			}
			_, ends := one.Term.Span()
			s.announce(b, one.Event)
			b.set(refs[i], thresholdDoc{Percent: one.Event.Quota.Percent, ExpiresAt: ends.Add(event.Retention)})
			announced++
		}
		return nil
	})
	return announced, err
}

// DeleteThresholds deletes expired thresholds.
func (s *Store) DeleteThresholds(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.prune(ctx, "thresholds", s.thresholds().Where("expires_at", "<", before), limit)
}

type gatesDoc struct {
	Denying bool      `firestore:"denying"`
	Since   time.Time `firestore:"since"`
}

// AnnounceGates announces whether all gates deny, unless that is the last announced state. It
// reports whether it announced anything.
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
			return errAlreadyAnnounced
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
	if errors.Is(err, errAlreadyAnnounced) {
		return false, nil
	}
	return err == nil, err
}

// KeysOf returns the existing keys with these prefixes, for one document read each.
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
