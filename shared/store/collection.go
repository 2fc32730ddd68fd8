package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"

	"github.com/sluicegate/sluice/shared/problem"
)

// Page is a part of a list, in the order of document ids.
type Page struct {
	Size  int    // at most this many; must be positive
	Token string // of the page before; "" starts
}

// document is the stored shape of a V.
type document[V any] interface{ value() V }

// decode reads a document into the V that it is the shape D of.
func decode[D document[V], V any](snap *firestore.DocumentSnapshot) (v V, err error) {
	d, err := shape[D](snap)
	if err != nil {
		return v, err
	}
	return d.value(), nil
}

// sameTime reports whether two times are equal as the store keeps them, in microseconds. The
// time of its creation tells a thing from an earlier one of the same name.
func sameTime(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// shape reads a document as it is stored.
func shape[D any](snap *firestore.DocumentSnapshot) (d D, err error) {
	if err := snap.DataTo(&d); err != nil {
		return d, fmt.Errorf("read %s: %w", snap.Ref.ID, err)
	}
	return d, nil
}

// reader reads a document's snapshot, as [decode] of a shape does.
type reader[V any] func(*firestore.DocumentSnapshot) (V, error)

// get reads one document. Problem: not_found, which says what there is not.
func get[V any](ctx context.Context, ref *firestore.DocumentRef, what string, read reader[V]) (v V, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snap, err := ref.Get(ctx)
	if err != nil {
		return v, fmt.Errorf("get %s: %w", ref.ID, problemOf(err, what))
	}
	return read(snap)
}

// txGet is get inside a transaction. changed are told when the document was changed last.
func txGet[V any](tx *firestore.Transaction, ref *firestore.DocumentRef, what string, read reader[V], changed ...*time.Time) (v V, err error) {
	snap, err := tx.Get(ref)
	if err != nil {
		return v, fmt.Errorf("get %s: %w", ref.ID, problemOf(err, what))
	}
	for _, at := range changed {
		*at = snap.UpdateTime
	}
	return read(snap)
}

// forget deletes a document, if it is there.
func forget(ctx context.Context, ref *firestore.DocumentRef) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := ref.Delete(ctx); err != nil {
		return fmt.Errorf("forget %s: %w", ref.ID, problemOf(err, "document"))
	}
	return nil
}

// prune deletes up to limit documents that a query finds, at most [maxWrites], in one
// commit, and tells how many. also are further documents to delete for an ID.
func (s *Store) prune(ctx context.Context, what string, q firestore.Query, limit int, also ...func(id string) *firestore.DocumentRef) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	snaps, err := q.Select().Limit(limit).Documents(ctx).GetAll()
	if err != nil {
		return 0, fmt.Errorf("find old %s: %w", what, problemOf(err, "document"))
	}
	if len(snaps) == 0 {
		return 0, nil
	}
	err = s.transact(ctx, "delete old "+what, func(_ context.Context, _ *firestore.Transaction, b *batch) error {
		for _, snap := range snaps {
			b.delete(snap.Ref)
			for _, ref := range also {
				b.delete(ref(snap.Ref.ID))
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(snaps), nil
}

// txExists tells whether a query finds any document, inside a transaction.
func txExists(tx *firestore.Transaction, q firestore.Query) (bool, error) {
	docs, err := tx.Documents(q.Limit(1)).GetAll()
	return len(docs) > 0, err
}

// find reads all that a query finds.
func find[V any](ctx context.Context, q firestore.Query, read reader[V]) ([]V, error) {
	snaps, err := snapshots(ctx, q)
	if err != nil {
		return nil, err
	}
	return readAll(snaps, read)
}

// each reads what a query finds as it is needed, and keeps nothing. An error is the last thing
// it yields.
func each[V any](ctx context.Context, q firestore.Query, read reader[V]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
		defer cancel()
		it := q.Documents(ctx)
		defer it.Stop()
		for {
			snap, err := it.Next()
			if errors.Is(err, iterator.Done) {
				return
			}
			var v V
			if err = problemOf(err, "document"); err == nil {
				v, err = read(snap)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

func snapshots(ctx context.Context, q firestore.Query) ([]*firestore.DocumentSnapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snaps, err := q.Documents(ctx).GetAll()
	return snaps, problemOf(err, "document")
}

func readAll[V any](snaps []*firestore.DocumentSnapshot, read reader[V]) ([]V, error) {
	values := make([]V, len(snaps))
	for i, snap := range snaps {
		var err error
		if values[i], err = read(snap); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// list reads one page of a query, ordered by document id, and gives the token of the
// next page, or "" when there is none. The query must not be ordered.
func list[V any](ctx context.Context, coll *firestore.CollectionRef, q firestore.Query, page Page, read reader[V]) ([]V, string, error) {
	q = q.OrderBy(firestore.DocumentID, firestore.Asc)
	if page.Token != "" {
		id, err := base64.RawURLEncoding.DecodeString(page.Token)
		if err != nil || !validID(string(id)) {
			return nil, "", problem.Of(problem.InvalidPage)
		}
		q = q.StartAfter(coll.Doc(string(id)))
	}
	return onePage(ctx, coll, q, page.Size, read)
}

// newest is list for a collection whose ids are the numbers in a field, the highest
// first.
func newest[V any](ctx context.Context, coll *firestore.CollectionRef, field string, page Page, read reader[V]) ([]V, string, error) {
	q := coll.OrderBy(field, firestore.Desc)
	if page.Token != "" {
		id, err := base64.RawURLEncoding.DecodeString(page.Token)
		n, notNumber := strconv.ParseInt(string(id), 10, 64)
		if err != nil || notNumber != nil || n < 1 || tokenOf(strconv.FormatInt(n, 10)) != page.Token {
			return nil, "", problem.Of(problem.InvalidPage)
		}
		q = q.StartAfter(n)
	}
	return onePage(ctx, coll, q, page.Size, read)
}

// onePage reads the first documents that a query finds, and makes the token of the last
// one if there are more.
func onePage[V any](ctx context.Context, coll *firestore.CollectionRef, q firestore.Query, size int, read reader[V]) ([]V, string, error) {
	snaps, err := snapshots(ctx, q.Limit(size+1))
	if err != nil {
		return nil, "", fmt.Errorf("list %s: %w", coll.ID, err)
	}
	next := ""
	if len(snaps) > size {
		snaps = snaps[:size]
		next = tokenOf(snaps[size-1].Ref.ID)
	}
	values, err := readAll(snaps, read)
	return values, next, err
}

// tokenOf is the token of the page after a document.
func tokenOf(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

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
