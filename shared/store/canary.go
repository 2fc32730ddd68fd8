package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"

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
}

func (s *Store) canaryRef(t CanaryType, replica string) *firestore.DocumentRef {
	return s.client.Collection(string(t)).Doc(canaryMark + replica)
}

// WriteCanary writes c among the documents of type t. The caller sets the deadline.
func (s *Store) WriteCanary(ctx context.Context, t CanaryType, c Canary) error {
	d := canaryDoc{Run: c.Run, Seq: c.Seq}
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

func deleteStaleCanaries(ctx context.Context, coll *firestore.CollectionRef, before time.Time) (int, error) {
	// Ids from "canary." to before "canary0" are those that begin with "canary.":
	// only the slash lies between the two, and no id has one.
	snaps, err := coll.Where(firestore.DocumentID, ">=", coll.Doc(canaryMark)).
		Where(firestore.DocumentID, "<", coll.Doc("canary0")).Documents(ctx).GetAll()
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
