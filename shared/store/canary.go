package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// Canary is a document that a checker replica writes into a collection to verify that its listener
// receives changes (promise F2). It has no namespace, so lists exclude it.
type Canary struct {
	Replica string `firestore:"-"`
	Run     string `firestore:"run"` // random per process; other runs' canaries prove nothing
	Seq     int64  `firestore:"seq"`

	Address string            `firestore:"address"` // host:port; "" if the replica cannot be queried
	Key     checkers.QueryKey `firestore:"-"`       // authenticates queries to the replica; not sent to listeners

	// For callers that wait for a change (package checkers); not sent to listeners.
	Applied time.Time     `firestore:"applied"` // the replica has applied the collection up to this store time
	Ceiling time.Duration `firestore:"-"`

	Features []checkers.Feature `firestore:"features,omitempty"`
}

// CanaryType is a data type for which replicas prove freshness.
type CanaryType string

// The canary types are the collections of the three data types.
const (
	CanaryKeys     CanaryType = "keys"
	CanaryPlans    CanaryType = "plans"
	CanaryCounters CanaryType = "counters"
)

// CanaryTypes returns all types.
func CanaryTypes() []CanaryType { return []CanaryType{CanaryKeys, CanaryPlans, CanaryCounters} }

const canaryMark = "canary."

// canaryStatus is the status of canaries. With a status, the listener's query includes them among
// the keys.
const canaryStatus = "canary"

func isCanary(id string) bool { return strings.HasPrefix(id, canaryMark) }

type canaryDoc struct {
	Canary

	Status  string `firestore:"status,omitempty"`
	Ceiling int64  `firestore:"ceiling_ms"`
	Key     []byte `firestore:"question_key"`
}

// maxCeiling is the longest configurable ceiling. It applies to canaries without a valid ceiling.
const maxCeiling = 90 * time.Second

func readMember(doc fire.Doc) (checkers.Member, error) {
	d, err := shape[canaryDoc](doc)
	if err != nil {
		return checkers.Member{}, err
	}
	m := checkers.Member{
		Replica: strings.TrimPrefix(doc.ID, canaryMark), Run: d.Run, Written: doc.Updated,
		Applied: d.Applied, Ceiling: time.Duration(d.Ceiling) * time.Millisecond, Address: d.Address, Features: d.Features,
	}
	if len(d.Key) == len(m.Key) {
		m.Key = checkers.QueryKey(d.Key)
	}
	if m.Ceiling <= 0 || m.Ceiling > maxCeiling {
		m.Ceiling = maxCeiling
	}
	return m, nil
}

func (s *Store) canaryRef(t CanaryType, replica string) fire.Ref {
	return s.db.Collection(string(t)).Doc(canaryMark + replica)
}

// WriteCanary writes c to the collection of type t. The caller sets the deadline.
func (s *Store) WriteCanary(ctx context.Context, t CanaryType, c Canary) error {
	d := canaryDoc{Canary: c, Ceiling: c.Ceiling.Milliseconds(), Key: c.Key[:]}
	if t == CanaryKeys {
		d.Status = canaryStatus
	}
	if _, err := s.canaryRef(t, c.Replica).Set(ctx, d); err != nil {
		return fmt.Errorf("write canary among %s: %w", t, problemOf(err, "canary"))
	}
	return nil
}

// DeleteCanary deletes a replica's canary. The caller sets the deadline.
func (s *Store) DeleteCanary(ctx context.Context, t CanaryType, replica string) error {
	if err := s.canaryRef(t, replica).Delete(ctx); err != nil {
		return fmt.Errorf("delete canary among %s: %w", t, problemOf(err, "canary"))
	}
	return nil
}

// DeleteStaleCanaries deletes the canaries last written before the given time.
func (s *Store) DeleteStaleCanaries(ctx context.Context, before time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	deleted := 0
	var errs error
	for _, t := range CanaryTypes() {
		n, err := deleteStaleCanaries(ctx, s.db.Collection(string(t)), before)
		deleted += n
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("delete stale canaries among %s: %w", t, problemOf(err, "canary")))
		}
	}
	return deleted, errs
}

// canariesOf finds the IDs from "canary." to "canary0". Only the slash sorts between these two
// characters, and no ID contains it.
func canariesOf(all fire.Query) fire.Query {
	return all.Where(fire.ID, ">=", canaryMark).Where(fire.ID, "<", "canary0")
}

// Members returns the replicas with a canary of the type: only these may allow requests. The read
// is strongly consistent.
func (s *Store) Members(ctx context.Context, t CanaryType) (checkers.List, error) {
	members := canariesOf(s.db.Collection(string(t)))
	docs, err := documents(ctx, members)
	list := checkers.List{}
	if err == nil && len(docs) == 0 { // the result of an empty query has no read time
		if list.Read, err = s.Now(ctx); err == nil {
			docs, err = documents(ctx, members)
		}
	}
	if err != nil {
		return checkers.List{}, fmt.Errorf("list members of %s: %w", t, err)
	}
	for _, doc := range docs {
		list.Read = doc.Read
	}
	list.Members, err = readAll(docs, readMember)
	return list, err
}

func deleteStaleCanaries(ctx context.Context, all fire.Query, before time.Time) (int, error) {
	docs, err := canariesOf(all).Find(ctx)
	if err != nil {
		return 0, err
	}
	deleted := 0
	for _, doc := range docs {
		if !doc.Updated.Before(before) {
			continue
		}
		err := doc.Delete(ctx, doc.Updated)
		switch {
		case err == nil:
			deleted++
		case errors.Is(err, fire.ErrStale), errors.Is(err, fire.ErrNotFound):
			// written again, or already deleted
		default:
			return deleted, err
		}
	}
	return deleted, nil
}
