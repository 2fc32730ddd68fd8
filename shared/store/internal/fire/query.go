package fire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/iterator"
)

// ID is the field of a document's ID in queries. Its values are strings.
const ID = firestore.DocumentID

// Ref identifies a document.
type Ref struct {
	ID  string
	doc *firestore.DocumentRef
}

// Collection returns a query for all documents of a subcollection.
func (r Ref) Collection(name string) Query { return queryOf(r.doc.Collection(name)) }

// Get reads the document. It returns [ErrNotFound] if the document does not exist.
func (r Ref) Get(ctx context.Context) (Doc, error) {
	snap, err := r.doc.Get(ctx)
	if err != nil {
		return Doc{}, failure(err)
	}
	return docOf(snap), nil
}

func pointers(refs []Ref) []*firestore.DocumentRef {
	all := make([]*firestore.DocumentRef, len(refs))
	for i, r := range refs {
		all[i] = r.doc
	}
	return all
}

// Doc is a document, which may not exist. The times are by the store's clock; Updated is the version.
type Doc struct {
	Ref

	Exists                 bool
	Created, Updated, Read time.Time

	snap *firestore.DocumentSnapshot
}

// Decode sets v, a pointer to a struct or map, to the fields. It returns [ErrNotFound] if the
// document does not exist.
func (d Doc) Decode(v any) error { return failure(d.snap.DataTo(v)) }

// Field returns a field, or nil if it is missing or null.
func (d Doc) Field(name string) any {
	v, err := d.snap.DataAt(name)
	if err != nil {
		return nil
	}
	return v
}

func docOf(s *firestore.DocumentSnapshot) Doc {
	return Doc{Ref{s.Ref.ID, s.Ref}, s.Exists(), s.CreateTime, s.UpdateTime, s.ReadTime, s}
}

func docsOf(snaps []*firestore.DocumentSnapshot, err error) ([]Doc, error) {
	docs := make([]Doc, len(snaps))
	for i, s := range snaps {
		docs[i] = docOf(s)
	}
	return docs, failure(err)
}

// Query selects documents of a collection. It does not change.
type Query struct {
	in    *firestore.CollectionRef
	query firestore.Query
}

func queryOf(c *firestore.CollectionRef) Query { return Query{c, c.Query} }

// Name returns the name of the collection.
func (q Query) Name() string { return q.in.ID }

// Doc returns a reference to a document of the collection.
func (q Query) Doc(id string) Ref { return Ref{id, q.in.Doc(id)} }

// Where adds a filter. op is a Firestore operator, such as "==".
func (q Query) Where(field, op string, value any) Query {
	if id, ok := value.(string); ok && field == ID {
		value = q.in.Doc(id)
	}
	return Query{q.in, q.query.Where(field, op, value)}
}

// WhereSet adds a filter unless its value is zero or empty.
func (q Query) WhereSet(field, op string, value any) Query {
	if v := reflect.ValueOf(value); v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return q
	}
	return q.Where(field, op, value)
}

// OrderBy sorts by fields in ascending order.
func (q Query) OrderBy(fields ...string) Query { return q.order(firestore.Asc, fields) }

// OrderByDesc sorts by fields in descending order.
func (q Query) OrderByDesc(fields ...string) Query { return q.order(firestore.Desc, fields) }

func (q Query) order(d firestore.Direction, fields []string) Query {
	for _, field := range fields {
		q.query = q.query.OrderBy(field, d)
	}
	return q
}

// After skips the documents until a position, which has a value for each field of the order.
func (q Query) After(values ...any) Query { return Query{q.in, q.query.StartAfter(values...)} }

// Limit sets the maximum number of documents.
func (q Query) Limit(n int) Query { return Query{q.in, q.query.Limit(n)} }

// Select limits the fields that are read. Without fields, it reads only IDs and times.
func (q Query) Select(fields ...string) Query { return Query{q.in, q.query.Select(fields...)} }

// Find returns the documents.
func (q Query) Find(ctx context.Context) ([]Doc, error) {
	return docsOf(q.query.Documents(ctx).GetAll())
}

// Each iterates over the documents of one snapshot, until the first error.
func (q Query) Each(ctx context.Context) iter.Seq2[Doc, error] {
	return func(yield func(Doc, error) bool) {
		it := q.query.Documents(ctx)
		defer it.Stop()
		for {
			snap, err := it.Next()
			if errors.Is(err, iterator.Done) {
				return
			}
			if err != nil {
				yield(Doc{}, failure(err))
				return
			}
			if !yield(docOf(snap), nil) {
				return
			}
		}
	}
}

// Count returns the number of documents.
func (q Query) Count(ctx context.Context) (int, error) {
	const name = "n"
	found, err := q.query.NewAggregationQuery().WithCount(name).Get(ctx)
	if err != nil {
		return 0, failure(err)
	}
	n, ok := found[name].(*pb.Value)
	if !ok {
		return 0, fmt.Errorf("unexpected count %T", found[name])
	}
	return int(n.GetIntegerValue()), nil
}
