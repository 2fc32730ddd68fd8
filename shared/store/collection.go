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

// Page is a part of a list, in the order of document IDs.
type Page struct {
	Size  int    // must be positive
	Token string // of the previous page; "" for the first page
}

type document[V any] interface{ value() V }

func decode[D document[V], V any](snap *firestore.DocumentSnapshot) (v V, err error) {
	d, err := shape[D](snap)
	if err != nil {
		return v, err
	}
	return d.value(), nil
}

// sameTime compares times in microseconds, the store's precision.
func sameTime(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

func shape[D any](snap *firestore.DocumentSnapshot) (d D, err error) {
	if err := snap.DataTo(&d); err != nil {
		return d, fmt.Errorf("read %s: %w", snap.Ref.ID, err)
	}
	return d, nil
}

type reader[V any] func(*firestore.DocumentSnapshot) (V, error)

// get reads one document. what is the noun for a not_found message.
func get[V any](ctx context.Context, ref *firestore.DocumentRef, what string, read reader[V]) (v V, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snap, err := ref.Get(ctx)
	if err != nil {
		return v, fmt.Errorf("get %s: %w", ref.ID, problemOf(err, what))
	}
	return read(snap)
}

// txGet is get in a transaction. It sets changed to the document's update time.
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

func deleteDoc(ctx context.Context, ref *firestore.DocumentRef) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := ref.Delete(ctx); err != nil {
		return fmt.Errorf("delete %s: %w", ref.ID, problemOf(err, "document"))
	}
	return nil
}

// prune deletes up to limit documents of a query. limit is at most [maxWrites]. With also, it
// deletes a second document for each ID.
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

func txExists(tx *firestore.Transaction, q firestore.Query) (bool, error) {
	docs, err := tx.Documents(q.Limit(1)).GetAll()
	return len(docs) > 0, err
}

func find[V any](ctx context.Context, q firestore.Query, read reader[V]) ([]V, error) {
	snaps, err := snapshots(ctx, q)
	if err != nil {
		return nil, err
	}
	return readAll(snaps, read)
}

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

// list reads one page in the order of document IDs. The query must not be ordered.
func list[V any](ctx context.Context, coll *firestore.CollectionRef, q firestore.Query, page Page, read reader[V]) ([]V, string, error) {
	q = q.OrderBy(firestore.DocumentID, firestore.Asc)
	if page.Token != "" {
		id, err := base64.RawURLEncoding.DecodeString(page.Token)
		if err != nil || !validID(string(id)) {
			return nil, "", problem.FromCode(problem.InvalidPage)
		}
		q = q.StartAfter(coll.Doc(string(id)))
	}
	return onePage(ctx, coll, q, page.Size, read)
}

// newest is like list, for documents that are numbered by a field, in descending order.
func newest[V any](ctx context.Context, coll *firestore.CollectionRef, field string, page Page, read reader[V]) ([]V, string, error) {
	q := coll.OrderBy(field, firestore.Desc)
	if page.Token != "" {
		id, err := base64.RawURLEncoding.DecodeString(page.Token)
		n, notNumber := strconv.ParseInt(string(id), 10, 64)
		if err != nil || notNumber != nil || n < 1 || tokenOf(strconv.FormatInt(n, 10)) != page.Token {
			return nil, "", problem.FromCode(problem.InvalidPage)
		}
		q = q.StartAfter(n)
	}
	return onePage(ctx, coll, q, page.Size, read)
}

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

func tokenOf(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

// validID reports whether id can be part of a document path.
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
