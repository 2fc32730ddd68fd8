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

// Text is a text of an answer that may be absent: "" is null.
type Text string

// MarshalJSON writes the text or null; null is read as "".
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(t))
}

// Ordinal is a number of an answer, 1 and up, that may be absent: 0 is null.
type Ordinal int64

// MarshalJSON writes the number or null; null is read as 0.
func (n Ordinal) MarshalJSON() ([]byte, error) {
	if n == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(int64(n))
}

// Some is a field that is given.
func Some[T any](v T) Optional[T] { return Optional[T]{Set: true, Value: &v} }

// If returns a field with the value, or null if that is nil, where the condition holds; otherwise
// the field is left out.
func If[T any](condition bool, value *T) Optional[T] {
	if !condition {
		return Optional[T]{}
	}
	return Optional[T]{Set: true, Value: value}
}

// Apply writes the field to a variable unless it is left out. Null writes the zero value.
func (o Optional[T]) Apply(to *T) {
	switch {
	case !o.Set:
	case o.Value == nil:
		*to = *new(T)
	default:
		*to = *o.Value
	}
}

// Null is a field that is given as null.
func Null[T any]() Optional[T] { return Optional[T]{Set: true} }
