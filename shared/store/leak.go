package store

import (
	"context"
	"reflect"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

type leakDoc struct {
	apikey.Leak

	Secret []byte `firestore:"secret"`
}

func leakToDoc(l *apikey.Leak) *leakDoc {
	if l == nil {
		return nil
	}
	return &leakDoc{Leak: *l, Secret: l.Secret[:]}
}

func (d *leakDoc) value() (l *apikey.Leak, ok bool) {
	if d == nil {
		return nil, true
	}
	d.Leak.Secret, ok = hashOf(d.Secret)
	return &d.Leak, ok
}

// LeakResult is the result of a leak report.
type LeakResult string

// The results of leak reports.
const (
	LeakUnknown  LeakResult = "unknown"  // not a secret of a stored key
	LeakKnown    LeakResult = "known"    // already reported
	LeakEnded    LeakResult = "ended"    // the secret was valid until the report
	LeakRecorded LeakResult = "recorded" // the key was already rejected
)

// LeakResults returns all results.
func LeakResults() []LeakResult {
	return []LeakResult{LeakUnknown, LeakKnown, LeakEnded, LeakRecorded}
}

// ReportLeak records a leak and applies the project's leak policy; see [apikey.Key.WithLeak].
// Unknown keys and repeated reports are not errors, and cost one read.
func (s *Store) ReportLeak(ctx context.Context, id apikey.ID, l apikey.Leak) (result LeakResult, c checkers.Change, err error) {
	seen, err := s.Key(ctx, id)
	if problem.Is(err, problem.NotFound) {
		return LeakUnknown, c, nil
	}
	if err != nil {
		return "", c, err
	}
	if result = leakOf(seen, l); result == LeakUnknown || result == LeakKnown {
		return result, c, nil
	}
	ref := s.keys().Doc(string(id))
	made, err := s.commitSerially(ctx, "report leak of "+string(id), ref, func(ctx context.Context, tx fire.Tx, b *batch) error {
		stored, err := txGet(tx, ref, "key", readKey)
		if err != nil {
			return err
		}
		p, err := txGet(tx, s.projects().Doc(stored.Project), "project", decode[projectDoc])
		if err != nil {
			return err
		}
		result = leakOf(stored, l)
		changed := stored.WithLeak(l, p.LeakPolicy)
		if reflect.DeepEqual(keyToDoc(changed), keyToDoc(stored)) {
			return nil
		}
		b.Change(ref, keyToDoc(stored), keyToDoc(changed))
		s.relist(b, changed)
		s.recordUpdate(ctx, b, leakChange(stored, changed, l))
		s.announceKey(b, event.KeyLeaked, changed)
		if t, ok := event.OfKeyChange(stored, changed); ok {
			s.announceKey(b, t, changed)
		}
		return nil
	})
	if problem.Is(err, problem.NotFound) {
		return LeakUnknown, c, nil
	}
	return result, checkers.Change{ID: made.record, Keys: made.at}, err
}

func leakOf(k apikey.Key, l apikey.Leak) LeakResult {
	current := k.Secret.Equal(l.Secret)
	previous := k.HasPrevious(l.At) && k.Previous.Equal(l.Secret)
	switch {
	case !current && !previous:
		return LeakUnknown
	case current && k.Exposed():
		return LeakKnown
	case k.Status != apikey.Active || k.Expired(l.At):
		return LeakRecorded
	}
	return LeakEnded
}
