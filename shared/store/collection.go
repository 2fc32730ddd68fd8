package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"

	"github.com/sluicegate/sluice/shared/problem"
)

// Page is a part of a list, in the order of document ids.
type Page struct {
	Size  int    // at most this many; must be positive
	Token string // of the page before; "" starts
}

// get reads one document into a D.
func get[D any](ctx context.Context, ref *firestore.DocumentRef, what string) (D, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var d D
	snap, err := ref.Get(ctx)
	if err != nil {
		return d, fmt.Errorf("get %s: %w", ref.ID, known(err, what))
	}
	if err := snap.DataTo(&d); err != nil {
		return d, fmt.Errorf("read %s: %w", ref.ID, err)
	}
	return d, nil
}

// create writes a document that must not exist yet.
func create(ctx context.Context, ref *firestore.DocumentRef, d any, what string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := ref.Create(ctx, d); err != nil {
		return fmt.Errorf("create %s: %w", ref.ID, known(err, what))
	}
	return nil
}

// transact runs f in a read-write transaction; f may run more than once. An
// error of f that holds a problem comes out as it is.
func (s *Store) transact(ctx context.Context, f func(ctx context.Context, tx *firestore.Transaction) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.client.RunTransaction(ctx, f)
	var p *problem.Error
	if err == nil || errors.As(err, &p) {
		return err
	}
	return known(err, "document")
}

// txGet reads one document inside a transaction.
func txGet[D any](tx *firestore.Transaction, ref *firestore.DocumentRef, what string) (D, error) {
	var d D
	snap, err := tx.Get(ref)
	if err != nil {
		return d, fmt.Errorf("get %s: %w", ref.ID, known(err, what))
	}
	if err := snap.DataTo(&d); err != nil {
		return d, fmt.Errorf("read %s: %w", ref.ID, err)
	}
	return d, nil
}

// list reads one page of a query, ordered by document id, and gives the token
// of the next page, or "" when there is none. The query must not be ordered.
func list[D any](ctx context.Context, coll *firestore.CollectionRef, q firestore.Query, page Page) (items []D, next string, err error) {
	docs, next, err := listed[D](ctx, coll, q, page)
	for _, d := range docs {
		items = append(items, d.doc)
	}
	return items, next, err
}

// identified is a document with its id.
type identified[D any] struct {
	id  string
	doc D
}

// listed is list for documents that do not hold their id.
func listed[D any](ctx context.Context, coll *firestore.CollectionRef, q firestore.Query, page Page) (items []identified[D], next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	q = q.OrderBy(firestore.DocumentID, firestore.Asc).Limit(page.Size + 1)
	if page.Token != "" {
		id, err := base64.RawURLEncoding.DecodeString(page.Token)
		if err != nil || !validID(string(id)) {
			return nil, "", problem.Of(problem.InvalidPage)
		}
		q = q.StartAfter(coll.Doc(string(id)))
	}
	it := q.Documents(ctx)
	defer it.Stop()
	for {
		snap, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return items, "", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("list %s: %w", coll.ID, known(err, "document"))
		}
		if len(items) == page.Size {
			return items, base64.RawURLEncoding.EncodeToString([]byte(items[len(items)-1].id)), nil
		}
		d := identified[D]{id: snap.Ref.ID}
		if err := snap.DataTo(&d.doc); err != nil {
			return nil, "", fmt.Errorf("read %s: %w", d.id, err)
		}
		items = append(items, d)
	}
}

// validID tells whether id can be part of a document path without changing it:
// Firestore keeps "__…__" for itself.
func validID(id string) bool {
	reserved := strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__")
	if id == "" || len(id) > 512 || id == "." || id == ".." || reserved {
		return false
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || c == '/' {
			return false
		}
	}
	return true
}
