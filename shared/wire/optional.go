package wire

import "encoding/json"

// Optional is a PATCH field: absent (Set is false), null (Set is true and Value is nil) or a value.
type Optional[T any] struct {
	Set   bool
	Value *T
}

// UnmarshalJSON reads the value and records that the field is present.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	o.Set = true
	return json.Unmarshal(b, &o.Value)
}

// MarshalJSON writes the value or null. The tag omitzero omits an absent field.
func (o Optional[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// Text is a string in a response; "" is null.
type Text string

// MarshalJSON writes the text, or null for "".
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(t))
}

// Ordinal is a positive number in a response; 0 is null.
type Ordinal int64

// MarshalJSON writes the number, or null for 0.
func (n Ordinal) MarshalJSON() ([]byte, error) {
	if n == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(int64(n))
}

// Some returns a field with a value.
func Some[T any](v T) Optional[T] { return Optional[T]{Set: true, Value: &v} }

// If returns a field with the value, or null if value is nil. If the condition is false, it returns
// an absent field.
func If[T any](condition bool, value *T) Optional[T] {
	if !condition {
		return Optional[T]{}
	}
	return Optional[T]{Set: true, Value: value}
}

// Apply stores the value in to, or the zero value for null. An absent field changes nothing.
func (o Optional[T]) Apply(to *T) {
	switch {
	case !o.Set:
	case o.Value == nil:
		*to = *new(T)
	default:
		*to = *o.Value
	}
}

// Null returns a field that is null.
func Null[T any]() Optional[T] { return Optional[T]{Set: true} }
