package store

import (
	"context"
	"errors"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

// deliveryDoc contains the response to a webhook call, or only the app of a used pipeline token.
type deliveryDoc struct {
	hook.StoredResponse

	App       string    `firestore:"app"`
	AppMade   time.Time `firestore:"app_created_at"` // excludes earlier apps with the same name
	Body      string    `firestore:"body"`
	ExpiresAt time.Time `firestore:"expires_at"`
}

// Receive records, in one commit, the work that a webhook call requests and the response. A repeated
// delivery changes the app only once; fresh is then false. A call without an ID is always new. If
// rule rejects the call, nothing is recorded. Receive returns a conflict problem if the delivery had
// another body.
func (s *Store) Receive(ctx context.Context, ref app.Ref, d hook.CallID, now time.Time, rule func(a app.App) (hook.RecordedWork, error)) (answer hook.StoredResponse, fresh bool, err error) {
	err = s.optimistic(ctx, "receive a call for "+ref.String(), ref, func(ctx context.Context, c current, b *batch, _ int) error {
		before, found, err := s.delivery(ctx, d, c.doc.value(), now)
		if err != nil {
			return err
		}
		if found {
			answer, fresh = before, false
			return nil
		}
		if err := s.spendToken(ctx, b, ref, d.Token); err != nil {
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
		s.storeRequest(b, d, c.doc.value(), answer, now)
		return nil
	})
	return answer, fresh, err
}

// spendToken marks a pipeline token as used. It returns invalid_token if the token was used before.
// An expired document belongs to an expired token.
func (s *Store) spendToken(ctx context.Context, b *batch, ref app.Ref, token hook.UsedToken) error {
	if token.ID == "" {
		return nil
	}
	_, err := get(ctx, s.deliveryRef(token.ID), "token", shape[deliveryDoc])
	if err == nil {
		return problem.FromCode(problem.InvalidToken).WithCause(errors.New("pipeline token already used"))
	}
	if !problem.Is(err, problem.NotFound) {
		return err
	}
	b.Create(s.deliveryRef(token.ID), deliveryDoc{App: ref.String(), ExpiresAt: token.Until})
	return nil
}

func (s *Store) delivery(ctx context.Context, d hook.CallID, to app.App, now time.Time) (answer hook.StoredResponse, found bool, err error) {
	if d.ID == "" {
		return hook.StoredResponse{}, false, nil
	}
	doc, err := get(ctx, s.deliveryRef(d.ID), "delivery", shape[deliveryDoc])
	switch {
	case problem.Is(err, problem.NotFound):
		return hook.StoredResponse{}, false, nil
	case err != nil:
		return hook.StoredResponse{}, false, err
	case !now.Before(doc.ExpiresAt), !doc.AppMade.Equal(to.CreatedAt):
		return hook.StoredResponse{}, false, nil
	case doc.Body != d.Body:
		return hook.StoredResponse{}, false, problem.New(problem.Conflict, "This delivery was already received with another body.")
	}
	return doc.StoredResponse, true, nil
}

func (s *Store) requested(ctx context.Context, d hook.CallID, to app.App, now time.Time) (hook.StoredResponse, bool, error) {
	before, found, err := s.delivery(ctx, d, to, now)
	if problem.Is(err, problem.Conflict) {
		err = problem.FromCode(problem.IdempotencyKeyReused)
	}
	return before, found, err
}

func (s *Store) storeRequest(b *batch, d hook.CallID, to app.App, a hook.StoredResponse, now time.Time) {
	if d.ID != "" {
		b.Set(s.deliveryRef(d.ID), deliveryDoc{StoredResponse: a, App: to.Ref().String(), AppMade: to.CreatedAt, Body: d.Body, ExpiresAt: now.Add(hook.ReplayWindow)})
	}
}

func (s *Store) add(ctx context.Context, c current, b *batch, out hook.RecordedWork) (int64, error) {
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
