// Package store reads and writes Sluice's documents in Firestore; README.md lists the collections.
// No other package imports Firestore.
//
// Functions return problems of package problem: not_found, already_exists, conflict if a change
// lost a race, unavailable if Firestore does not respond in time, and invalid_page for an invalid
// page token.
//
//   - Callbacks (change, rule) run in a transaction, possibly more than once. Their errors are
//     returned.
//   - A function that expects an object returns not_found if another object has replaced it under
//     the same name.
//   - A function with a limit processes at most that many documents. If it returns fewer, there are
//     no more.
//   - A creation reads its parent in its transaction, and a deletion looks for children. So no
//     object remains without its parent.
//
// A type has a separate document type, which embeds it, only if a stored field differs from the
// domain type's. For example, a zero time is stored as null.
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

// callTimeout applies to calls, except listeners and bulk operations.
const callTimeout = 10 * time.Second

// Store is a client of the database.
type Store struct {
	client  *firestore.Client
	watcher *watcher
	locks   keyedMutex
	now     func() time.Time

	keyCounts  keyCounts
	announcing bool
}

// Database contains the settings for [Open].
type Database struct {
	Project string `env:"GOOGLE_CLOUD_PROJECT, required"`
}

// Open returns a client of a project's database, or of the emulator at $FIRESTORE_EMULATOR_HOST. It
// does not connect yet.
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

// Now returns the store's time. Later reads see everything committed before it.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snaps, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.client.Collection("clock").Doc("now")})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the store's clock: %w", problemOf(err, "document"))
	}
	return snaps[0].ReadTime, nil
}

// article returns the indefinite article for a word. It is right for "user", but not for "hour".
func article(word string) string {
	if strings.ContainsAny(word[:1], "aeio") {
		return "An"
	}
	return "A"
}

func problemOf(err error, what string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return problem.FromCode(problem.Unavailable).WithCause(err)
	}
	switch status.Code(err) { //nolint:exhaustive // callers treat all other codes alike
	case codes.OK:
		return nil
	case codes.NotFound:
		return problem.New(problem.NotFound, "The %s does not exist.", what)
	case codes.AlreadyExists:
		return problem.New(problem.AlreadyExists, "%s %s with this name already exists.", article(what), what).WithCause(err)
	case codes.Aborted, codes.FailedPrecondition:
		return problem.FromCode(problem.Conflict).WithCause(err)
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Canceled:
		// Internal and Canceled are also failures of the store or the connection.
		return problem.FromCode(problem.Unavailable).WithCause(err)
	case codes.InvalidArgument:
		if lostTransaction(err) {
			return problem.FromCode(problem.Unavailable).WithCause(err)
		}
	}
	return err
}

// lostTransaction reports whether Firestore no longer knows the transaction: the connection broke,
// and the library resent the commit. The first commit may have succeeded. Only the message
// identifies this error.
func lostTransaction(err error) bool {
	text := status.Convert(err).Message()
	return strings.Contains(text, "ransaction is invalid or closed") || // the emulator
		strings.Contains(text, "ransaction has expired or is no longer valid")
}
