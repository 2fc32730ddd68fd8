package store

import (
	"context"
	"errors"
	"strings"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
	"github.com/sluicegate/sluice/shared/usage"
)

// Keys listens to all keys except revoked ones, beginning with a complete batch. It returns an
// error when ctx or the stream ends.
func (f *Feed) Keys(ctx context.Context, to Receiver[apikey.Key]) error {
	return listen(ctx, f, fire.Selection{Collection: "keys", Field: "status", Not: string(apikey.Revoked)}, parseKey, to)
}

// Plans listens to all plans, like [Feed.Keys].
func (f *Feed) Plans(ctx context.Context, to Receiver[plan.Plan]) error {
	return listen(ctx, f, fire.Selection{Collection: "plans"}, parsePlan, to)
}

// Counters listens to all counters, like [Feed.Keys].
func (f *Feed) Counters(ctx context.Context, to Receiver[usage.Counter]) error {
	return listen(ctx, f, fire.Selection{Collection: "counters"}, parseCounter, to)
}

func parseKey(id string, r *fire.FieldReader) (apikey.Key, error) {
	k := apikey.Key{
		Prefix:        apikey.Prefix(r.Text("prefix")),
		Environment:   r.OptionalText("environment"),
		Namespace:     r.Text("namespace"),
		Plan:          plan.ID(r.Text("plan")),
		Name:          r.Text("name"),
		Apps:          r.Texts("apps"),
		Status:        apikey.Status(r.Text("status")),
		Secret:        readHash(r, "secret"),
		ExpiresAt:     r.Time("expires_at"),
		PreviousUntil: r.Time("previous_until"),
	}
	if !k.PreviousUntil.IsZero() {
		k.Previous = readHash(r, "previous")
	}
	if !apikey.ValidPrefix(string(k.Prefix)) {
		r.Fail("prefix")
	}
	if r.Err == nil && id != string(k.ID()) {
		r.Err = errOtherID
	}
	return k, r.Err
}

var errOtherID = errors.New("document ID does not match the fields")

func parsePlan(id string, r *fire.FieldReader) (plan.Plan, error) {
	p := plan.Plan{
		ID:        plan.ID(r.Text("id")),
		Namespace: r.Text("namespace"),
		Name:      r.OptionalText("name"),
		Limits: plan.Limits{
			Rate:   r.Number("rate"),
			Burst:  r.Integer("burst"),
			Quota:  r.Integer("quota"),
			Period: plan.Period(r.Text("quota_period")),
			Hard:   readHard(r, "quota_mode"),
		},
	}
	if r.Err != nil {
		return plan.Plan{}, r.Err
	}
	if id != planDocument(p.Namespace, p.ID) {
		return plan.Plan{}, errOtherID
	}
	return p, p.Check()
}

func parseCounter(id string, r *fire.FieldReader) (usage.Counter, error) {
	c := usage.Counter{
		Source: usage.CounterSource(r.Text("source")),
		Shard:  int(r.Integer("shard")),
		Counts: r.Bytes("counts"),
	}
	day := r.Text("day")
	if r.Err != nil {
		return usage.Counter{}, r.Err
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

func parseCanary(id string, r *fire.FieldReader) (Canary, error) {
	c := Canary{Replica: strings.TrimPrefix(id, canaryMark), Run: r.Text("run"), Seq: r.Integer("seq")}
	c.Address = r.OptionalText("address") // missing in canaries of earlier releases
	return c, r.Err
}

func readHash(r *fire.FieldReader, name string) apikey.Hash {
	h, ok := hashOf(r.Bytes(name))
	if !ok {
		r.Fail(name)
	}
	return h
}

// readHard treats a missing or empty mode as soft.
func readHard(r *fire.FieldReader, name string) bool {
	if r.Absent(name) {
		return false
	}
	m := plan.Mode(r.Text(name))
	if m != "" && !m.Valid() {
		r.Fail(name)
	}
	return m == plan.Hard
}
