package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
)

// Keys listens to all keys except revoked ones, beginning with a complete batch. It returns an
// error when ctx or the stream ends.
func (f *Feed) Keys(ctx context.Context, to Receiver[apikey.Key]) error {
	return listen(ctx, f, allBut("keys", string(apikey.Revoked)), parseKey, to)
}

// Plans listens to all plans, like [Feed.Keys].
func (f *Feed) Plans(ctx context.Context, to Receiver[plan.Plan]) error {
	return listen(ctx, f, all("plans"), parsePlan, to)
}

// Counters listens to all counters, like [Feed.Keys].
func (f *Feed) Counters(ctx context.Context, to Receiver[usage.Counter]) error {
	return listen(ctx, f, all("counters"), parseCounter, to)
}

func parseKey(id string, f fields) (apikey.Key, error) {
	r := fieldReader{fields: f}
	k := apikey.Key{
		Prefix:        apikey.Prefix(r.text("prefix")),
		Environment:   r.optionalText("environment"),
		Namespace:     r.text("namespace"),
		Plan:          plan.ID(r.text("plan")),
		Name:          r.text("name"),
		Apps:          r.texts("apps"),
		Status:        apikey.Status(r.text("status")),
		Secret:        r.hash("secret"),
		ExpiresAt:     r.timestamp("expires_at"),
		PreviousUntil: r.timestamp("previous_until"),
	}
	if !k.PreviousUntil.IsZero() {
		k.Previous = r.hash("previous")
	}
	if !apikey.ValidPrefix(string(k.Prefix)) {
		r.fail("prefix")
	}
	if r.err == nil && id != string(k.ID()) {
		r.err = errOtherID
	}
	return k, r.err
}

var errOtherID = errors.New("document ID does not match the fields")

func parsePlan(id string, f fields) (plan.Plan, error) {
	r := fieldReader{fields: f}
	p := plan.Plan{
		ID:        plan.ID(r.text("id")),
		Namespace: r.text("namespace"),
		Name:      r.optionalText("name"),
		Limits: plan.Limits{
			Rate:   r.number("rate"),
			Burst:  r.integer("burst"),
			Quota:  r.integer("quota"),
			Period: plan.Period(r.text("quota_period")),
			Hard:   r.hard("quota_mode"),
		},
	}
	if r.err != nil {
		return plan.Plan{}, r.err
	}
	if id != planDocument(p.Namespace, p.ID) {
		return plan.Plan{}, errOtherID
	}
	return p, p.Check()
}

func parseCounter(id string, f fields) (usage.Counter, error) {
	r := fieldReader{fields: f}
	c := usage.Counter{
		Source: usage.CounterSource(r.text("source")),
		Shard:  int(r.integer("shard")),
		Counts: r.bytesOf("counts"),
	}
	day := r.text("day")
	if r.err != nil {
		return usage.Counter{}, r.err
	}
	var err error
	if c.Day, err = usage.ParseDay(day); err != nil {
		return usage.Counter{}, err
	}
	if id != usage.CounterID(c.Day, c.Source, c.Shard) {
		return usage.Counter{}, errOtherID
	}
	return c, c.Counts.Check()
}

func parseCanary(id string, f fields) (Canary, error) {
	r := fieldReader{fields: f}
	c := Canary{Replica: strings.TrimPrefix(id, canaryMark), Run: r.text("run"), Seq: r.integer("seq")}
	c.Address = f["address"].GetStringValue() // missing in canaries of earlier releases
	return c, r.err
}

// fields are read without reflection. A missing required field, or a field of another type, makes
// the document unreadable.
type fields map[string]*pb.Value

type fieldReader struct {
	fields fields
	err    error
}

func (r *fieldReader) fail(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("field %s is missing or has the wrong type", name)
	}
}

func field[W any](r *fieldReader, name string) *pb.Value {
	v := r.fields[name]
	if _, ok := v.GetValueType().(W); !ok {
		r.fail(name)
	}
	return v
}

func (r *fieldReader) text(name string) string {
	return field[*pb.Value_StringValue](r, name).GetStringValue()
}

// optionalText returns a text that affects no decision.
func (r *fieldReader) optionalText(name string) string { return r.fields[name].GetStringValue() }

func (r *fieldReader) integer(name string) int64 {
	return field[*pb.Value_IntegerValue](r, name).GetIntegerValue()
}

// number accepts integers, too: Firestore stores 10.0 as it was written.
func (r *fieldReader) number(name string) float64 {
	if v, ok := r.fields[name].GetValueType().(*pb.Value_IntegerValue); ok {
		return float64(v.IntegerValue)
	}
	return field[*pb.Value_DoubleValue](r, name).GetDoubleValue()
}

func (r *fieldReader) bytesOf(name string) []byte {
	return field[*pb.Value_BytesValue](r, name).GetBytesValue()
}

func (r *fieldReader) hash(name string) apikey.Hash {
	h, ok := hashOf(r.bytesOf(name))
	if !ok {
		r.fail(name)
	}
	return h
}

// hard treats a missing or empty mode as soft.
func (r *fieldReader) hard(name string) bool {
	if r.absent(name) {
		return false
	}
	m := plan.Mode(r.text(name))
	if m != "" && !m.Valid() {
		r.fail(name)
	}
	return m == plan.Hard
}

func (r *fieldReader) timestamp(name string) time.Time {
	if r.absent(name) {
		return time.Time{}
	}
	at := field[*pb.Value_TimestampValue](r, name).GetTimestampValue()
	if at.CheckValid() != nil {
		r.fail(name)
		return time.Time{}
	}
	return at.AsTime()
}

func (r *fieldReader) texts(name string) []string {
	if r.absent(name) {
		return nil
	}
	var list []string
	for _, e := range field[*pb.Value_ArrayValue](r, name).GetArrayValue().GetValues() {
		s, ok := e.GetValueType().(*pb.Value_StringValue)
		if !ok {
			r.fail(name)
			return nil
		}
		list = append(list, s.StringValue)
	}
	return list
}

func (r *fieldReader) absent(name string) bool {
	v, ok := r.fields[name]
	if !ok {
		return true
	}
	_, null := v.GetValueType().(*pb.Value_NullValue)
	return null
}
