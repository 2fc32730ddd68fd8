package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
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
	err = s.transact(ctx, "announce "+e.Name, func(_ context.Context, tx fire.Tx, b *batch) error {
		announced = 0
		span, err := s.expirySpan(mark, e, tx.Get)
		if err != nil {
			return err
		}
		keys, err := tx.Find(s.expiringKeys(span).Limit(limit))
		if err != nil {
			return problemOf(err, "key")
		}
		next := expiryDoc{Expires: span.until}
		for _, doc := range keys {
			k, err := readKey(doc)
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
			next = expiryDoc{Expires: last.Field("expires_at").(time.Time), Key: last.ID} //nolint:forcetypeassert // the query is by it
		}
		b.Set(mark, next)
		return nil
	})
	return announced, err
}

// nothingExpires reports, without locks, whether there is nothing to write.
func (s *Store) nothingExpires(ctx context.Context, mark fire.Ref, e event.Expiry) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	span, err := s.expirySpan(mark, e, func(refs ...fire.Ref) ([]fire.Doc, error) {
		return s.db.Get(ctx, refs...)
	})
	if err != nil {
		return false, err
	}
	if span.first || span.from.Key != "" || span.until.Sub(span.from.Expires) > advanceInterval {
		return false, nil
	}
	found, err := documents(ctx, s.expiringKeys(span).Limit(1))
	return len(found) == 0, err
}

type expirySpan struct {
	from  expiryDoc
	until time.Time
	first bool
}

func (s *Store) expirySpan(mark fire.Ref, e event.Expiry, getAll func(...fire.Ref) ([]fire.Doc, error)) (expirySpan, error) {
	docs, err := getAll(mark)
	if err != nil {
		return expirySpan{}, fmt.Errorf("get mark %s: %w", e.Name, problemOf(err, "mark"))
	}
	until := docs[0].Read.Add(e.Before() - expiryLag)
	if !docs[0].Exists {
		return expirySpan{from: expiryDoc{Expires: until}, until: until, first: true}, nil
	}
	from, err := shape[expiryDoc](docs[0])
	if oldest := until.Add(-event.Retention); from.Expires.Before(oldest) {
		from = expiryDoc{Expires: oldest}
	}
	return expirySpan{from: from, until: until}, err
}

func (s *Store) expiringKeys(span expirySpan) fire.Query {
	q := s.keys().Where("expires_at", "<=", span.until).OrderBy("expires_at", fire.ID)
	if span.from.Key != "" {
		return q.After(span.from.Expires, span.from.Key)
	}
	return q.Where("expires_at", ">", span.from.Expires)
}

type thresholdDoc struct {
	Percent   int       `firestore:"percent"`
	ExpiresAt time.Time `firestore:"expires_at"`
}

// QuotaCrossing is a quota whose use has reached a threshold.
type QuotaCrossing struct {
	Term  usage.QuotaPeriod
	Event event.OutboxEntry
}

// AnnounceQuotas announces the quotas whose percentage is not announced yet. It accepts a few
// hundred quotas. It returns the number of announcements.
func (s *Store) AnnounceQuotas(ctx context.Context, all []QuotaCrossing) (announced int, err error) {
	refs := make([]fire.Ref, len(all))
	for i, one := range all {
		refs[i] = s.thresholds().Doc(one.Term.ID())
	}
	err = s.transact(ctx, fmt.Sprintf("announce %d quotas", len(all)), func(_ context.Context, tx fire.Tx, b *batch) error {
		announced = 0
		docs, err := tx.Get(refs...)
		if err != nil {
			return err
		}
		for i, one := range all {
			d, err := orZero(shape[thresholdDoc](docs[i]))
			if err != nil {
				return err
			}
			if d.Percent >= one.Event.Quota.Percent {
				continue
			}
			_, ends := one.Term.Span()
			s.announce(b, one.Event)
			b.Set(refs[i], thresholdDoc{Percent: one.Event.Quota.Percent, ExpiresAt: ends.Add(event.Retention)})
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
	err := s.transact(ctx, "announce gates", func(_ context.Context, tx fire.Tx, b *batch) error {
		docs, err := tx.Get(ref)
		if err != nil {
			return err
		}
		is, err := orZero(shape[gatesDoc](docs[0]))
		if err != nil {
			return err
		}
		if is.Denying == denying {
			return errAlreadyAnnounced
		}
		at := docs[0].Read.UTC().Truncate(time.Microsecond)
		t := event.GateRecovered
		if denying {
			t, is.Since = event.GateDenying, at
		}
		s.announce(b, event.OfGates(t, event.Gates{Checkers: checkers, Since: is.Since}, at))
		b.Set(ref, gatesDoc{Denying: denying, Since: is.Since})
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
	docs, err := s.getAll(ctx, refsOf(s.keys(), prefixes)...)
	if err != nil {
		return nil, fmt.Errorf("get keys: %w", err)
	}
	return readAll(existing(docs), readKey)
}
