package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// The collections, and references to documents of some.

func (s *Store) announcements() fire.Query          { return s.db.Collection("announcements") }
func (s *Store) apps() fire.Query                   { return s.db.Collection("apps") }
func (s *Store) counters() fire.Query               { return s.db.Collection("counters") }
func (s *Store) deliveryRef(id string) fire.Ref     { return s.db.Collection("deliveries").Doc(id) }
func (s *Store) hosts() fire.Query                  { return s.db.Collection("hosts") }
func (s *Store) keylist() fire.Query                { return s.db.Collection("keylist") }
func (s *Store) keys() fire.Query                   { return s.db.Collection("keys") }
func (s *Store) leases() fire.Query                 { return s.db.Collection("leases") }
func (s *Store) mark(name string) fire.Ref          { return s.db.Collection("marks").Doc(name) }
func (s *Store) pendingBuilds() fire.Query          { return s.db.Collection("pending_builds") }
func (s *Store) plans() fire.Query                  { return s.db.Collection("plans") }
func (s *Store) projects() fire.Query               { return s.db.Collection("projects") }
func (s *Store) receipts() fire.Query               { return s.db.Collection("receipts") }
func (s *Store) records() fire.Query                { return s.db.Collection("audit") }
func (s *Store) rollups() fire.Query                { return s.db.Collection("rollups") }
func (s *Store) sessionRef(tokenID string) fire.Ref { return s.db.Collection("sessions").Doc(tokenID) }
func (s *Store) thresholds() fire.Query             { return s.db.Collection("thresholds") }
func (s *Store) tokens() fire.Query                 { return s.db.Collection("tokens") }
func (s *Store) users() fire.Query                  { return s.db.Collection("users") }

// Page is a part of a list, in the order of document IDs.
type Page struct {
	Size  int    // must be positive
	Token string // of the previous page; "" for the first page
}

type document[V any] interface{ value() V }

func decode[D document[V], V any](doc fire.Doc) (v V, err error) {
	d, err := shape[D](doc)
	if err != nil {
		return v, err
	}
	return d.value(), nil
}

// sameTime compares times in microseconds, the store's precision.
func sameTime(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

func shape[D any](doc fire.Doc) (d D, err error) {
	if err := doc.Decode(&d); err != nil {
		return d, fmt.Errorf("read %s: %w", doc.ID, err)
	}
	return d, nil
}

// orZero returns zero for a document that does not exist.
func orZero[V any](v V, err error) (V, error) {
	if problem.Is(err, problem.NotFound) || errors.Is(err, fire.ErrNotFound) {
		return *new(V), nil
	}
	return v, err
}

type reader[V any] func(fire.Doc) (V, error)

// get reads one document. what is the noun for a not_found message.
func get[V any](ctx context.Context, ref fire.Ref, what string, read reader[V]) (v V, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	doc, err := ref.Get(ctx)
	if err != nil {
		return v, fmt.Errorf("get %s: %w", ref.ID, problemOf(err, what))
	}
	return read(doc)
}

// txGet is get in a transaction. It sets changed to the document's update time.
func txGet[V any](tx fire.Tx, ref fire.Ref, what string, read reader[V], changed ...*time.Time) (v V, err error) {
	docs, err := tx.Get(ref)
	if err == nil && !docs[0].Exists {
		err = fire.ErrNotFound
	}
	if err != nil {
		return v, fmt.Errorf("get %s: %w", ref.ID, problemOf(err, what))
	}
	for _, at := range changed {
		*at = docs[0].Updated
	}
	return read(docs[0])
}

// getAll reads documents, in the order of refs. Some may not exist.
func (s *Store) getAll(ctx context.Context, refs ...fire.Ref) ([]fire.Doc, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	docs, err := s.db.Get(ctx, refs...)
	return docs, problemOf(err, "document")
}

func deleteDoc(ctx context.Context, ref fire.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := ref.Delete(ctx); err != nil {
		return fmt.Errorf("delete %s: %w", ref.ID, problemOf(err, "document"))
	}
	return nil
}

// prune deletes up to limit documents of a query. limit is at most [maxWrites]. With also, it
// deletes a second document for each ID.
func (s *Store) prune(ctx context.Context, what string, q fire.Query, limit int, also ...func(id string) fire.Ref) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	docs, err := q.Select().Limit(limit).Find(ctx)
	if err != nil {
		return 0, fmt.Errorf("find old %s: %w", what, problemOf(err, "document"))
	}
	var old []fire.Ref
	for _, doc := range docs {
		old = append(old, doc.Ref)
		for _, ref := range also {
			old = append(old, ref(doc.ID))
		}
	}
	return s.deleteOld(ctx, what, len(docs), old)
}

// deleteOld returns n if it deletes the documents.
func (s *Store) deleteOld(ctx context.Context, what string, n int, old []fire.Ref) (int, error) {
	if n == 0 {
		return 0, nil
	}
	err := s.transact(ctx, "delete old "+what, func(_ context.Context, _ fire.Tx, b *batch) error {
		b.Delete(old...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func txExists(tx fire.Tx, q fire.Query) (bool, error) {
	docs, err := tx.Find(q.Limit(1))
	return len(docs) > 0, err
}

func find[V any](ctx context.Context, q fire.Query, read reader[V]) ([]V, error) {
	docs, err := documents(ctx, q)
	if err != nil {
		return nil, err
	}
	return readAll(docs, read)
}

func each[V any](ctx context.Context, q fire.Query, read reader[V]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
		defer cancel()
		for doc, err := range q.Each(ctx) {
			var v V
			if err = problemOf(err, "document"); err == nil {
				v, err = read(doc)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

func documents(ctx context.Context, q fire.Query) ([]fire.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	docs, err := q.Find(ctx)
	return docs, problemOf(err, "document")
}

func existing(docs []fire.Doc) []fire.Doc {
	return slices.DeleteFunc(docs, func(doc fire.Doc) bool { return !doc.Exists })
}

func readAll[V any](docs []fire.Doc, read reader[V]) ([]V, error) {
	values := make([]V, len(docs))
	for i, doc := range docs {
		var err error
		if values[i], err = read(doc); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// list reads one page in the order of document IDs. The query must not be ordered.
func list[V any](ctx context.Context, q fire.Query, page Page, read reader[V]) ([]V, string, error) {
	q = q.OrderBy(fire.ID)
	if page.Token != "" {
		id, err := base64.RawURLEncoding.DecodeString(page.Token)
		if err != nil || !validID(string(id)) {
			return nil, "", problem.FromCode(problem.InvalidPage)
		}
		q = q.After(string(id))
	}
	return onePage(ctx, q, page.Size, read)
}

// newest is like list, for documents that are numbered by a field, in descending order.
func newest[V any](ctx context.Context, q fire.Query, field string, page Page, read reader[V]) ([]V, string, error) {
	q = q.OrderByDesc(field)
	if page.Token != "" {
		id, err := base64.RawURLEncoding.DecodeString(page.Token)
		n, notNumber := strconv.ParseInt(string(id), 10, 64)
		if err != nil || notNumber != nil || n < 1 || tokenOf(strconv.FormatInt(n, 10)) != page.Token {
			return nil, "", problem.FromCode(problem.InvalidPage)
		}
		q = q.After(n)
	}
	return onePage(ctx, q, page.Size, read)
}

func onePage[V any](ctx context.Context, q fire.Query, size int, read reader[V]) ([]V, string, error) {
	docs, err := documents(ctx, q.Limit(size+1))
	if err != nil {
		return nil, "", fmt.Errorf("list %s: %w", q.Name(), err)
	}
	next := ""
	if len(docs) > size {
		docs = docs[:size]
		next = tokenOf(docs[size-1].ID)
	}
	values, err := readAll(docs, read)
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
