package store

import (
	"fmt"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// fields are a listened document's, read one by one without reflection. A field
// that is missing or of another type is an error: a document in doubt opens
// nothing.
type fields map[string]*pb.Value

// reader reads fields and keeps the first error.
type reader struct {
	fields fields
	err    error
}

func (r *reader) fail(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("field %s is missing or of another type", name)
	}
}

func (r *reader) text(name string) string {
	v, ok := r.fields[name].GetValueType().(*pb.Value_StringValue)
	if !ok {
		r.fail(name)
		return ""
	}
	return v.StringValue
}

func (r *reader) integer(name string) int64 {
	v, ok := r.fields[name].GetValueType().(*pb.Value_IntegerValue)
	if !ok {
		r.fail(name)
		return 0
	}
	return v.IntegerValue
}

// number takes a whole number too: Firestore stores 10.0 as it was written.
func (r *reader) number(name string) float64 {
	switch v := r.fields[name].GetValueType().(type) {
	case *pb.Value_DoubleValue:
		return v.DoubleValue
	case *pb.Value_IntegerValue:
		return float64(v.IntegerValue)
	}
	r.fail(name)
	return 0
}

func (r *reader) bytesOf(name string) []byte {
	v, ok := r.fields[name].GetValueType().(*pb.Value_BytesValue)
	if !ok {
		r.fail(name)
		return nil
	}
	return v.BytesValue
}

// instant is a time; absent or null is the zero time.
func (r *reader) instant(name string) time.Time {
	if r.absent(name) {
		return time.Time{}
	}
	v, ok := r.fields[name].GetValueType().(*pb.Value_TimestampValue)
	if !ok || v.TimestampValue.CheckValid() != nil {
		r.fail(name)
		return time.Time{}
	}
	return v.TimestampValue.AsTime()
}

// texts is a list of strings; absent or null is nil.
func (r *reader) texts(name string) []string {
	if r.absent(name) {
		return nil
	}
	v, ok := r.fields[name].GetValueType().(*pb.Value_ArrayValue)
	if !ok {
		r.fail(name)
		return nil
	}
	var list []string
	for _, e := range v.ArrayValue.GetValues() {
		s, ok := e.GetValueType().(*pb.Value_StringValue)
		if !ok {
			r.fail(name)
			return nil
		}
		list = append(list, s.StringValue)
	}
	return list
}

func (r *reader) absent(name string) bool {
	v, ok := r.fields[name]
	if !ok {
		return true
	}
	_, null := v.GetValueType().(*pb.Value_NullValue)
	return null
}
