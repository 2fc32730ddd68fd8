package wire

import "encoding/json"

// Optional is a PATCH field: left out (Set is false), null (Set, Value nil), or
// a value.
type Optional[T any] struct {
	Set   bool
	Value *T
}

// UnmarshalJSON notes that the field was there.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	o.Set = true
	return json.Unmarshal(b, &o.Value)
}

// MarshalJSON writes the value or null; with omitzero a field left out stays out.
func (o Optional[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// Some is a field that is given.
func Some[T any](v T) Optional[T] { return Optional[T]{Set: true, Value: &v} }

// Null is a field that is given as null.
func Null[T any]() Optional[T] { return Optional[T]{Set: true} }
