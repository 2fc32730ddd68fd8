// Package store reads and writes Sluice's documents in Firestore; README.md lists the collections.
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

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// callTimeout applies to calls, except listeners and bulk operations.
const callTimeout = 10 * time.Second

// Store is a client of the database.
type Store struct {
	db  *fire.DB
	now func() time.Time

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
	db, err := fire.Open(ctx, project)
	if err != nil {
		return nil, fmt.Errorf("open store of project %s: %w", project, err)
	}
	return &Store{db: db, now: time.Now}, nil
}

// Close ends the connection.
func (s *Store) Close() error { return s.db.Close() }

// Observe calls f after each call of the store, with the operation, such as "commit", the gRPC
// status, such as "OK", and the duration. lasting is true for listeners. f must not block.
func (s *Store) Observe(f func(op, outcome string, took time.Duration, lasting bool)) {
	s.db.Observe(f)
}

// Now returns the store's time. Later reads see everything committed before it.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	docs, err := s.getAll(ctx, s.db.Collection("clock").Doc("now"))
	if err != nil {
		return time.Time{}, fmt.Errorf("read the store's clock: %w", err)
	}
	return docs[0].Read, nil
}

// article returns the indefinite article for a word. It is right for "user", but not for "hour".
func article(word string) string {
	if strings.ContainsAny(word[:1], "aeio") {
		return "An"
	}
	return "A"
}

// problemOf returns the problem of a failed call; problems remain. what is the noun for a message.
func problemOf(err error, what string) error {
	var p *problem.Error
	switch {
	case errors.As(err, &p):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, fire.ErrUnavailable):
		return problem.FromCode(problem.Unavailable).WithCause(err)
	case errors.Is(err, fire.ErrNotFound):
		return problem.New(problem.NotFound, "The %s does not exist.", what)
	case errors.Is(err, fire.ErrExists):
		return problem.New(problem.AlreadyExists, "%s %s with this name already exists.", article(what), what).WithCause(err)
	case errors.Is(err, fire.ErrStale):
		return problem.FromCode(problem.Conflict).WithCause(err)
	}
	return err
}
