// Package fire reads and writes documents in Firestore. No other package imports Firestore.
//
// Calls have the deadline of their context. Their errors match [ErrNotFound], [ErrExists],
// [ErrStale], [ErrUnavailable] or [ErrUnclear] if possible.
package fire

import (
	"context"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc"
)

// DB is a client of a project's database.
type DB struct {
	client  *firestore.Client
	watcher *watcher
	locks   keyedMutex
}

// Open returns a client of a project's database, or of the emulator at $FIRESTORE_EMULATOR_HOST. It
// does not connect yet. Tests intercept calls with dial options.
func Open(ctx context.Context, project string, with ...grpc.DialOption) (*DB, error) {
	w := &watcher{}
	opts, err := clientOptions(append(dialOptions(w), with...))
	if err != nil {
		return nil, err
	}
	client, err := firestore.NewClient(ctx, project, opts...)
	return &DB{client: client, watcher: w}, err
}

// Close ends the connection.
func (db *DB) Close() error { return db.client.Close() }

// Collection returns a query for all documents of a top-level collection.
func (db *DB) Collection(name string) Query { return queryOf(db.client.Collection(name)) }

// Get reads documents, in the order of refs. Some may not exist.
func (db *DB) Get(ctx context.Context, refs ...Ref) ([]Doc, error) {
	return docsOf(db.client.GetAll(ctx, pointers(refs)))
}

// Tx reads in a transaction, which locks the documents.
type Tx struct{ tx *firestore.Transaction }

// Get is like [DB.Get].
func (t Tx) Get(refs ...Ref) ([]Doc, error) { return docsOf(t.tx.GetAll(pointers(refs))) }

// Find is like [Query.Find].
func (t Tx) Find(q Query) ([]Doc, error) { return docsOf(t.tx.Documents(q.query).GetAll()) }

// Tries is the usual number of attempts of a transaction.
const Tries = firestore.DefaultTransactionMaxAttempts

// Transact runs f in a transaction, and commits the writes that it returns. If another transaction
// intervenes, it runs f again, up to tries times. It returns the commit time, or the error of f.
func (db *DB) Transact(ctx context.Context, tries int, f func(context.Context, Tx) (Batch, error)) (time.Time, error) {
	var response firestore.CommitResponse
	err := db.client.RunTransaction(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		b, err := f(ctx, Tx{tx})
		for _, write := range b.writes {
			if err == nil {
				err = write(tx)
			}
		}
		return err
	}, firestore.MaxAttempts(tries), firestore.WithCommitResponseTo(&response))
	if err != nil {
		return time.Time{}, failure(err)
	}
	return response.CommitTime(), nil
}
