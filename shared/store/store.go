// Package store keeps Sluice's documents in Firestore, one file for each collection. No other
// package imports Firestore.
//
// Its functions take and return domain types. They return problems of package problem: not_found,
// already_exists, conflict for a change that lost a race, and unavailable if Firestore does not
// respond in time.
//
// A domain type's firestore tags are its document. A document type exists only where a field has
// another stored form, such as a time that is null when it is zero. It embeds the domain type:
//
//	type planDoc struct {
//		plan.Plan
//		Mode plan.Mode `firestore:"quota_mode"` // Hard is stored as a mode
//	}
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/shared/problem"
)

// callTimeout bounds every call on the store that is not a listener, so that a
// store that stalls is an error and not a hung request.
const callTimeout = 10 * time.Second

// Store is a connection to the document store.
type Store struct {
	client  *firestore.Client
	watcher *watcher
	locks   keyedMutex
	now     func() time.Time // stamps audit records and events

	keyCounts  keyCounts
	announcing bool // see [Store.AnnounceEvents]
}

// Database is what whoever opens a store reads from its environment.
type Database struct {
	Project string `env:"GOOGLE_CLOUD_PROJECT, required"` // Google Cloud project of the Firestore database
}

// Open connects to the Firestore database of a Google Cloud project, or to the
// emulator at $FIRESTORE_EMULATOR_HOST. It makes no call yet.
func Open(ctx context.Context, project string) (*Store, error) {
	w := &watcher{}
	opts, err := clientOptions(w)
	if err != nil {
		return nil, err
	}
	client, err := firestore.NewClient(ctx, project, opts...)
	if err != nil {
		return nil, fmt.Errorf("open store of project %s: %w", project, err)
	}
	return &Store{client: client, watcher: w, now: time.Now}, nil
}

// Close ends the connection.
func (s *Store) Close() error { return s.client.Close() }

// Now returns the time by the store's clock: everything committed before it is visible to
// reads that start after the call. Problem: unavailable.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// A read of a document that does not exist has a read time, too.
	snaps, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.client.Collection("clock").Doc("now")})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the store's clock: %w", problemOf(err, "document"))
	}
	return snaps[0].ReadTime, nil
}

// problemOf gives Firestore's status in the words of package problem; what is the
// thing's name in a message, e.g. "plan".
func problemOf(err error, what string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return problem.Of(problem.Unavailable).Because(err)
	}
	switch status.Code(err) { //nolint:exhaustive // the rest is one and the same to a caller
	case codes.OK:
		return nil
	case codes.NotFound:
		return problem.New(problem.NotFound, "There is no such %s.", what)
	case codes.AlreadyExists:
		return problem.New(problem.AlreadyExists, "There already is a %s with that name.", what).Because(err)
	case codes.Aborted, codes.FailedPrecondition:
		return problem.Of(problem.Conflict).Because(err)
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Canceled:
		// Internal and Canceled are the store's and the connection's own failures here.
		return problem.Of(problem.Unavailable).Because(err)
	case codes.InvalidArgument:
		if lostTransaction(err) {
			return problem.Of(problem.Unavailable).Because(err)
		}
	}
	return err
}

// lostTransaction tells whether Firestore does not know, or not any more, the
// transaction that a call belonged to: its connection broke, and the library sent
// the commit again on another one. Whether the first one came through is not known,
// as with any call that got no answer. Firestore says it in words only.
func lostTransaction(err error) bool {
	text := status.Convert(err).Message()
	return strings.Contains(text, "ransaction is invalid or closed") || // the emulator
		strings.Contains(text, "ransaction has expired or is no longer valid")
}
