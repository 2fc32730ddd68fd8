package store

import (
	"context"
	"errors"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
)

// Keys hears every key that is, or can be made, good: one that is revoked is gone. It
// returns when ctx ends or the stream does, always with an error; the next call starts
// over with a full batch.
func (f *Feed) Keys(ctx context.Context, to Receiver[apikey.Key]) error {
	return listen(ctx, f, allBut("keys", string(apikey.Revoked)), heardKey, to)
}

// Plans hears every plan, as [Feed.Keys] does keys.
func (f *Feed) Plans(ctx context.Context, to Receiver[plan.Plan]) error {
	return listen(ctx, f, all("plans"), heardPlan, to)
}

// heardKey reads what the gate needs of a key's document.
func heardKey(id string, f fields) (apikey.Key, error) {
	r := reader{fields: f}
	k := apikey.Key{
		Prefix:        apikey.Prefix(r.text("prefix")),
		Namespace:     r.text("namespace"),
		Plan:          plan.ID(r.text("plan")),
		Name:          r.text("name"),
		Apps:          r.texts("apps"),
		Status:        apikey.Status(r.text("status")),
		ExpiresAt:     r.instant("expires_at"),
		PreviousUntil: r.instant("previous_until"),
	}
	if secret := r.bytesOf("secret"); copy(k.Secret[:], secret) != len(k.Secret) || len(secret) != len(k.Secret) {
		r.fail("secret")
	}
	if !k.PreviousUntil.IsZero() {
		if previous := r.bytesOf("previous"); copy(k.Previous[:], previous) != len(k.Previous) || len(previous) != len(k.Previous) {
			r.fail("previous")
		}
	}
	if !apikey.ValidPrefix(string(k.Prefix)) {
		r.fail("prefix")
	}
	if r.err == nil && id != string(k.ID()) {
		r.err = errOtherID
	}
	return k, r.err
}

// errOtherID says that a document has the fields of another one: whoever wrote it, it
// was not the function whose collection it is in.
var errOtherID = errors.New("the document's id is not the one that its fields make")

// heardPlan reads what the gate needs of a plan's document.
func heardPlan(id string, f fields) (plan.Plan, error) {
	r := reader{fields: f}
	p := plan.Plan{
		ID:        plan.ID(r.text("id")),
		Namespace: r.text("namespace"),
		Limits: plan.Limits{
			Rate:   r.number("rate"),
			Burst:  r.integer("burst"),
			Quota:  r.integer("quota"),
			Period: plan.Period(r.text("quota_period")),
		},
	}
	if r.err != nil {
		return plan.Plan{}, r.err
	}
	if id != planDocument(p.Namespace, p.ID) {
		return plan.Plan{}, errOtherID
	}
	return p, p.Limits.Check()
}

// Counters hears every counter, as [Feed.Keys] does keys.
func (f *Feed) Counters(ctx context.Context, to Receiver[usage.Counter]) error {
	return listen(ctx, f, all("counters"), heardCounter, to)
}
