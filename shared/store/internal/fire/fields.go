package fire

import (
	"fmt"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// FieldReader reads the fields of a document that a listener received, without reflection. A
// missing required field, or a field of another type, sets Err.
type FieldReader struct {
	Err error

	fields map[string]*pb.Value
}

// NewFieldReader returns a reader of fields.
func NewFieldReader(fields map[string]*pb.Value) *FieldReader { return &FieldReader{fields: fields} }

// Fail sets Err unless it is set.
func (r *FieldReader) Fail(name string) {
	if r.Err == nil {
		r.Err = fmt.Errorf("field %s is missing or has the wrong type", name)
	}
}

func field[W any](r *FieldReader, name string) *pb.Value {
	v := r.fields[name]
	if _, ok := v.GetValueType().(W); !ok {
		r.Fail(name)
	}
	return v
}

// Text returns a required text.
func (r *FieldReader) Text(name string) string {
	return field[*pb.Value_StringValue](r, name).GetStringValue()
}

// OptionalText returns a text that affects no decision.
func (r *FieldReader) OptionalText(name string) string { return r.fields[name].GetStringValue() }

// Integer returns a required integer.
func (r *FieldReader) Integer(name string) int64 {
	return field[*pb.Value_IntegerValue](r, name).GetIntegerValue()
}

// Number returns a required number. It accepts integers, too: Firestore stores 10.0 as it was
// written.
func (r *FieldReader) Number(name string) float64 {
	if v, ok := r.fields[name].GetValueType().(*pb.Value_IntegerValue); ok {
		return float64(v.IntegerValue)
	}
	return field[*pb.Value_DoubleValue](r, name).GetDoubleValue()
}

// Bytes returns required bytes.
func (r *FieldReader) Bytes(name string) []byte {
	return field[*pb.Value_BytesValue](r, name).GetBytesValue()
}

// Time returns a time, or zero if the field is absent.
func (r *FieldReader) Time(name string) time.Time {
	if r.Absent(name) {
		return time.Time{}
	}
	at := field[*pb.Value_TimestampValue](r, name).GetTimestampValue()
	if at.CheckValid() != nil {
		r.Fail(name)
		return time.Time{}
	}
	return at.AsTime()
}

// Texts returns a list of texts, or nil if the field is absent.
func (r *FieldReader) Texts(name string) []string {
	if r.Absent(name) {
		return nil
	}
	var list []string
	for _, e := range field[*pb.Value_ArrayValue](r, name).GetArrayValue().GetValues() {
		s, ok := e.GetValueType().(*pb.Value_StringValue)
		if !ok {
			r.Fail(name)
			return nil
		}
		list = append(list, s.StringValue)
	}
	return list
}

// Absent reports whether a field is missing or null.
func (r *FieldReader) Absent(name string) bool {
	v, ok := r.fields[name]
	if !ok {
		return true
	}
	_, null := v.GetValueType().(*pb.Value_NullValue)
	return null
}
