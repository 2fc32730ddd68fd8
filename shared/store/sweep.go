package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/problem"
)

// DeleteStaleCanaries deletes the canaries that were last written before a time:
// those of replicas that are gone. It tells how many. One that is written again
// meanwhile stays.
func (s *Store) DeleteStaleCanaries(ctx context.Context, before time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	deleted := 0
	var errs error
	for _, t := range [...]CanaryType{CanaryKeys, CanaryPlans, CanaryCounters} {
		n, err := deleteStaleCanaries(ctx, s.client.Collection(string(t)), before)
		deleted += n
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("delete stale canaries among %s: %w", t, known(err, "canary")))
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
		case problem.Is(known(err, "canary"), problem.Conflict), problem.Is(known(err, "canary"), problem.NotFound):
			// written again, or deleted by another run
		default:
			return deleted, err
		}
	}
	return deleted, nil
}
