package store

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

// deliveryDoc is a document of deliveries/{id}: what came of a webhook's call, or, with
// the app alone, that a pipeline's token was used for one. It counts until expires_at; the
// collection's TTL policy on that field deletes it some time after.
type deliveryDoc struct {
	App       string    `firestore:"app"`            // an [app.Ref]
	AppMade   time.Time `firestore:"app_created_at"` // a delivery to an app of that name before is not this one's
	Body      string    `firestore:"body"`           // SHA-256, hex
	Action    string    `firestore:"action"`
	Revision  int64     `firestore:"revision"`
	Build     int64     `firestore:"build"`
	Image     string    `firestore:"image"`
	Commit    string    `firestore:"commit"`
	Reason    string    `firestore:"reason"`
	ExpiresAt time.Time `firestore:"expires_at"`
}

func deliveryToDoc(to app.App, d hook.Delivery, a hook.Answer, expires time.Time) deliveryDoc {
	return deliveryDoc{
		App: to.Ref().String(), AppMade: to.CreatedAt, Body: d.Body, Action: string(a.Action), Revision: a.Revision, Build: a.Build,
		Image: a.Image, Commit: a.Commit, Reason: a.Reason, ExpiresAt: expires,
	}
}

func (d deliveryDoc) answer() hook.Answer {
	return hook.Answer{
		Action: hook.Action(d.Action), Revision: d.Revision, Build: d.Build,
		Image: d.Image, Commit: d.Commit, Reason: d.Reason,
	}
}

func (s *Store) deliveryRef(id string) *firestore.DocumentRef {
	return s.client.Collection("deliveries").Doc(id)
}

// Receive records what a call of an app's webhook asks for and what it is told,
// both in one commit: so a delivery that comes twice, at once or after a crash
// anywhere, adds to the app once. rule is called with the app, and may be called
// again. A call without a delivery id (d.ID is "") is always a new one, and nothing
// is kept of a call that rule refuses. fresh tells whether the answer is of this
// call and not of the delivery's first. Problems: not_found; conflict when the
// delivery came with another body before; those of rule.
func (s *Store) Receive(ctx context.Context, ref app.Ref, d hook.Delivery, now time.Time, rule func(a app.App) (hook.Outcome, error)) (answer hook.Answer, fresh bool, err error) {
	err = s.optimistic(ctx, "receive a call for "+ref.String(), ref, func(ctx context.Context, c current, b *batch, _ int) error {
		before, found, err := s.delivery(ctx, d, c.doc.value(), now)
		if err != nil {
			return err
		}
		if found {
			answer, fresh = before, false
			return nil
		}
		if err := s.spend(ctx, b, ref, d.Token); err != nil {
			return err
		}
		out, err := rule(c.doc.value())
		if err != nil {
			return err
		}
		number, err := s.add(ctx, c, b, out)
		if err != nil {
			return err
		}
		answer, fresh = out.Answer(number), true
		s.keepRequest(b, d, c.doc.value(), answer, now)
		return nil
	})
	return answer, fresh, err
}

// spend uses a pipeline's token up. A document that has expired stands for one that is
// worth nothing anyway. Problem: invalid_token when it was used before.
func (s *Store) spend(ctx context.Context, b *batch, ref app.Ref, token hook.Spent) error {
	if token.ID == "" {
		return nil
	}
	_, err := get(ctx, s.deliveryRef(token.ID), "token", shape[deliveryDoc])
	if err == nil {
		return problem.Of(problem.InvalidToken).Because(errors.New("the pipeline's token was used before"))
	}
	if !problem.Is(err, problem.NotFound) {
		return err
	}
	b.create(s.deliveryRef(token.ID), deliveryDoc{App: ref.String(), ExpiresAt: token.Until})
	return nil
}

// delivery looks for what came of a delivery to an app before.
func (s *Store) delivery(ctx context.Context, d hook.Delivery, to app.App, now time.Time) (answer hook.Answer, found bool, err error) {
	if d.ID == "" {
		return hook.Answer{}, false, nil
	}
	doc, err := get(ctx, s.deliveryRef(d.ID), "delivery", shape[deliveryDoc])
	switch {
	case problem.Is(err, problem.NotFound):
		return hook.Answer{}, false, nil
	case err != nil:
		return hook.Answer{}, false, err
	case !now.Before(doc.ExpiresAt), !doc.AppMade.Equal(to.CreatedAt):
		return hook.Answer{}, false, nil
	case doc.Body != d.Body:
		return hook.Answer{}, false, problem.New(problem.Conflict, "This delivery came with another body before.")
	}
	return doc.answer(), true, nil
}

// requested looks for what a call of the management API recorded before. Problem:
// idempotency_key_reused when it came with another body.
func (s *Store) requested(ctx context.Context, d hook.Delivery, to app.App, now time.Time) (hook.Answer, bool, error) {
	before, found, err := s.delivery(ctx, d, to, now)
	if problem.Is(err, problem.Conflict) {
		err = problem.Of(problem.IdempotencyKeyReused)
	}
	return before, found, err
}

// keepRequest keeps the result of a call that has an ID.
func (s *Store) keepRequest(b *batch, d hook.Delivery, to app.App, a hook.Answer, now time.Time) {
	if d.ID != "" {
		b.set(s.deliveryRef(d.ID), deliveryToDoc(to, d, a, now.Add(hook.Remembered)))
	}
}

// add writes what a call asks for and returns its number. Problem: too_many_builds.
func (s *Store) add(ctx context.Context, c current, b *batch, out hook.Outcome) (int64, error) {
	switch out.Action {
	case hook.Deploy:
		return s.addRevision(ctx, c, b, out.Revision, "").Number, nil
	case hook.Build:
		if err := s.checkQueue(ctx, c.ref); err != nil {
			return 0, err
		}
		return s.addBuild(ctx, c, b, out.Build).Number, nil
	case hook.Ignore, hook.Pong:
	}
	return 0, nil
}
