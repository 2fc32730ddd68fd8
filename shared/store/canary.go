package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/problem"
)

// Canary is a document that a checker replica writes only to see it come back
// through a listener (promise F2). It lives in the very
// collection that the listener hears, as "canary.{replica}", and belongs to no
// namespace, so it never shows in a list.
type Canary struct {
	Replica string // the writer's name, e.g. "checker-7d9f-x2x"
	Run     string // random per process: echoes for another run prove nothing
	Seq     int64  // counts up from 1 within a run

	Address string            // where it can be asked, host:port; "" nowhere
	Key     checkers.QueryKey // of questions about denials; those who listen for canaries do not hear it

	// What the replica says by it to those who wait for a change (package inforce). Those
	// who listen for canaries do not hear it.
	Applied time.Time     // up to when it has heard the collection, by the store's clock
	Ceiling time.Duration // how long its proofs are good

	Features []checkers.Feature // that the writer has
}

// CanaryType is one of the three data types that a replica proves to see.
type CanaryType string

// The data types, by their collections.
const (
	CanaryKeys     CanaryType = "keys"
	CanaryPlans    CanaryType = "plans"
	CanaryCounters CanaryType = "counters"
)

// CanaryTypes lists the three.
func CanaryTypes() []CanaryType { return []CanaryType{CanaryKeys, CanaryPlans, CanaryCounters} }

const canaryMark = "canary."

// canaryStatus is what canaries among keys have for a status, so that the listener
// which leaves revoked keys out hears them.
const canaryStatus = "canary"

func isCanary(id string) bool { return strings.HasPrefix(id, canaryMark) }

type canaryDoc struct {
	Run    string `firestore:"run"`
	Seq    int64  `firestore:"seq"`
	Status string `firestore:"status,omitempty"` // among keys

	Applied time.Time `firestore:"applied"`
	Ceiling int64     `firestore:"ceiling_ms"`
	Address string    `firestore:"address"`

	Features []checkers.Feature `firestore:"features,omitempty"`

	// Key is what questions about denials are sealed with (package explain): who may read
	// this document may ask them. It is worth nothing once the process has ended.
	Key []byte `firestore:"question_key"`
}

// longestCeiling is that of a replica which does not say its own: no setting allows more.
const longestCeiling = 90 * time.Second

func readMember(snap *firestore.DocumentSnapshot) (checkers.Member, error) {
	d, err := shape[canaryDoc](snap)
	if err != nil {
		return checkers.Member{}, err
	}
	m := checkers.Member{
		Replica: strings.TrimPrefix(snap.Ref.ID, canaryMark), Run: d.Run, Written: snap.UpdateTime,
		Applied: d.Applied, Ceiling: time.Duration(d.Ceiling) * time.Millisecond, Address: d.Address, Features: d.Features,
	}
	if len(d.Key) == len(m.Key) {
		m.Key = checkers.QueryKey(d.Key)
	}
	if m.Ceiling <= 0 || m.Ceiling > longestCeiling {
		m.Ceiling = longestCeiling
	}
	return m, nil
}

func (s *Store) canaryRef(t CanaryType, replica string) *firestore.DocumentRef {
	return s.client.Collection(string(t)).Doc(canaryMark + replica)
}

// WriteCanary writes c among the documents of type t. The caller sets the deadline.
func (s *Store) WriteCanary(ctx context.Context, t CanaryType, c Canary) error {
	d := canaryDoc{Run: c.Run, Seq: c.Seq, Applied: c.Applied, Ceiling: c.Ceiling.Milliseconds(), Address: c.Address, Key: c.Key[:], Features: c.Features}
	if t == CanaryKeys {
		d.Status = canaryStatus
	}
	if _, err := s.canaryRef(t, c.Replica).Set(ctx, d); err != nil {
		return fmt.Errorf("write canary among %s: %w", t, problemOf(err, "canary"))
	}
	return nil
}

// DeleteCanary removes a replica's canary. The caller sets the deadline.
func (s *Store) DeleteCanary(ctx context.Context, t CanaryType, replica string) error {
	if _, err := s.canaryRef(t, replica).Delete(ctx); err != nil {
		return fmt.Errorf("delete canary among %s: %w", t, problemOf(err, "canary"))
	}
	return nil
}

// DeleteStaleCanaries deletes the canaries that were last written before a time:
// those of replicas that are gone. It tells how many. One that is written again
// meanwhile stays.
func (s *Store) DeleteStaleCanaries(ctx context.Context, before time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	deleted := 0
	var errs error
	for _, t := range CanaryTypes() {
		n, err := deleteStaleCanaries(ctx, s.client.Collection(string(t)), before)
		deleted += n
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("delete stale canaries among %s: %w", t, problemOf(err, "canary")))
		}
	}
	return deleted, errs
}

// canariesOf finds the canaries of a collection. Ids from "canary." to before "canary0"
// are those that begin with "canary.": only the slash lies between the two, and no id
// has one.
func canariesOf(coll *firestore.CollectionRef) firestore.Query {
	return coll.Where(firestore.DocumentID, ">=", coll.Doc(canaryMark)).Where(firestore.DocumentID, "<", coll.Doc("canary0"))
}

// Members lists the replicas that may allow requests by one data type: those whose
// canaries are there now. The read is a strong one: what was committed before has been.
func (s *Store) Members(ctx context.Context, t CanaryType) (checkers.List, error) {
	members := canariesOf(s.client.Collection(string(t)))
	snaps, err := snapshots(ctx, members)
	list := checkers.List{}
	if err == nil && len(snaps) == 0 { // the result of an empty query has no read time
		if list.Read, err = s.Now(ctx); err == nil {
			snaps, err = snapshots(ctx, members)
		}
	}
	if err != nil {
		return checkers.List{}, fmt.Errorf("list members of %s: %w", t, err)
	}
	for _, snap := range snaps {
		list.Read = snap.ReadTime
	}
	list.Members, err = readAll(snaps, readMember)
	return list, err
}

func deleteStaleCanaries(ctx context.Context, coll *firestore.CollectionRef, before time.Time) (int, error) {
	snaps, err := canariesOf(coll).Documents(ctx).GetAll()
	if err != nil {
		return 0, err
	}
	deleted := 0
	for _, snap := range snaps {
		if !snap.UpdateTime.Before(before) {
			continue
		}
		_, err := snap.Ref.Delete(ctx, firestore.LastUpdateTime(snap.UpdateTime))
		switch {
		case err == nil:
			deleted++
		case problem.Is(problemOf(err, "canary"), problem.Conflict), problem.Is(problemOf(err, "canary"), problem.NotFound):
			// written again, or deleted by another run
		default:
			return deleted, err
		}
	}
	return deleted, nil
}
