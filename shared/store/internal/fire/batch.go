package fire

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
)

// Fields are fields of a document by name. A value may be [Now], [Remove], the result of [Add], or
// Fields of a map.
type Fields map[string]any

// Values that the store determines.
const (
	Now    = firestore.ServerTimestamp // Now is the commit time.
	Remove = firestore.Delete          // Remove removes the field.
)

// Add increases a number.
func Add(n int64) any { return firestore.Increment(n) }

func (f Fields) updates(path ...string) (all []firestore.Update) {
	for name, value := range f {
		to := append(slices.Clip(path), name)
		if nested, ok := value.(Fields); ok {
			all = append(all, nested.updates(to...)...)
		} else {
			all = append(all, firestore.Update{FieldPath: to, Value: value})
		}
	}
	return all
}

// Changed returns the fields that differ between two values of a document.
func Changed(was, is any) Fields {
	changed := Fields{}
	before, after := reflect.ValueOf(was), reflect.ValueOf(is)
	for _, field := range reflect.VisibleFields(after.Type()) {
		name, options, _ := strings.Cut(field.Tag.Get("firestore"), ",")
		if field.Anonymous || name == "-" {
			continue
		}
		value := after.FieldByIndex(field.Index)
		switch {
		case reflect.DeepEqual(before.FieldByIndex(field.Index).Interface(), value.Interface()):
		case options == "omitempty" && value.IsZero():
			changed[name] = Remove
		default:
			changed[name] = value.Interface()
		}
	}
	return changed
}

// Batch collects the writes of one commit. Firestore requires all reads before the first write.
type Batch struct {
	writes []func(*firestore.Transaction) error
}

func (b *Batch) add(write func(*firestore.Transaction) error) { b.writes = append(b.writes, write) }

// Len returns the number of writes.
func (b *Batch) Len() int { return len(b.writes) }

// Create writes a new document.
func (b *Batch) Create(r Ref, v any) {
	b.add(func(tx *firestore.Transaction) error { return tx.Create(r.doc, v) })
}

// Set writes or replaces a document. Use it for new documents, and for those that one function
// writes. [Batch.Change] and [Batch.Update] preserve fields of newer releases.
func (b *Batch) Set(r Ref, v any) {
	b.add(func(tx *firestore.Transaction) error { return tx.Set(r.doc, v) })
}

// Merge writes some fields of v, into a new document if necessary.
func (b *Batch) Merge(r Ref, v any, fields ...string) {
	paths := make([]firestore.FieldPath, len(fields))
	for i, name := range fields {
		paths[i] = firestore.FieldPath{name}
	}
	b.add(func(tx *firestore.Transaction) error { return tx.Set(r.doc, v, firestore.Merge(paths...)) })
}

// Change writes the fields that differ.
func (b *Batch) Change(r Ref, was, is any) {
	if f := Changed(was, is); len(f) > 0 {
		b.Update(r, f)
	}
}

// Update writes fields of an existing document, including later additions to f. With a version, the
// commit fails with [ErrStale] if the document has another version.
func (b *Batch) Update(r Ref, f Fields, version ...time.Time) {
	b.add(func(tx *firestore.Transaction) error { return tx.Update(r.doc, f.updates(), only(version)...) })
}

// Delete deletes documents.
func (b *Batch) Delete(refs ...Ref) {
	for _, r := range refs {
		b.add(func(tx *firestore.Transaction) error { return tx.Delete(r.doc) })
	}
}

// Create is [Batch.Create] without a transaction. It returns the commit time.
func (r Ref) Create(ctx context.Context, v any) (time.Time, error) {
	return written(r.doc.Create(ctx, v))
}

// Set is [Batch.Set] without a transaction.
func (r Ref) Set(ctx context.Context, v any) (time.Time, error) { return written(r.doc.Set(ctx, v)) }

// Update is [Batch.Update] without a transaction.
func (r Ref) Update(ctx context.Context, f Fields, version ...time.Time) (time.Time, error) {
	return written(r.doc.Update(ctx, f.updates(), only(version)...))
}

// Delete deletes a document. With a version, it returns [ErrStale] if the document has another one.
func (r Ref) Delete(ctx context.Context, version ...time.Time) error {
	_, err := r.doc.Delete(ctx, only(version)...)
	return failure(err)
}

func written(w *firestore.WriteResult, err error) (time.Time, error) {
	if err != nil {
		return time.Time{}, failure(err)
	}
	return w.UpdateTime, nil
}

func only(version []time.Time) (all []firestore.Precondition) {
	for _, at := range version {
		all = append(all, firestore.LastUpdateTime(at))
	}
	return all
}
