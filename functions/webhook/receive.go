package webhook

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
)

// receive takes a call. Problems: invalid_token, rate_limited, body_too_large,
// unsupported_media_type; those of the payload; image_required,
// git_source_attached, invalid_image; conflict for a delivery that came with
// another body; unavailable.
func (s *Service) receive(w http.ResponseWriter, r *http.Request) error {
	ref := refOfPath(r)
	answer, fresh, err := s.take(w, r, ref)
	if err != nil {
		s.outcomes.WithLabelValues(failure(err)).Inc()
		return err
	}
	s.outcomes.WithLabelValues(taken(answer, fresh)).Inc()
	return s.reply(w, r, ref, answer, fresh)
}

// take does what a call asks for, and tells what that was.
func (s *Service) take(w http.ResponseWriter, r *http.Request, ref app.Ref) (answer hook.Answer, fresh bool, err error) {
	body, free, err := s.prove(w, r, ref)
	defer free()
	if err != nil {
		return hook.Answer{}, false, err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body is in; only hanging up is still to come
	trace.Identify(r.Context(), trace.Actor{Kind: trace.Webhook, Name: actor})
	call, err := readCall(r, body)
	if err != nil {
		return hook.Answer{}, false, err
	}
	d := hook.Delivery{}
	if id := hook.DeliveryOf(r.Header); id != "" {
		d = hook.NewDelivery(ref, id, body)
	}
	answer, fresh, err = s.record(r.Context(), ref, call, d)
	if err != nil {
		return hook.Answer{}, false, err
	}
	if fresh {
		s.pass(r.Context(), ref, answer)
	}
	s.log.InfoContext(r.Context(), "webhook called", "app", ref.String(),
		"event", string(call.Event), "action", string(answer.Action), "revision", answer.Revision, "build", answer.Build, "replayed", !fresh)
	return answer, fresh, nil
}

// record does what a proven call asks for, unless its delivery did before.
// Problems: those of [hook.Decide] and of the store, and invalid_token when the
// Secret has outlived its app.
func (s *Service) record(ctx context.Context, ref app.Ref, call hook.Call, d hook.Delivery) (hook.Answer, bool, error) {
	now := s.moment()
	c, err := s.resolve(ctx, ref, call)
	if err != nil {
		return hook.Answer{}, false, unknown(err)
	}
	done, err := s.turns.wait(ctx, ref)
	if err != nil {
		return hook.Answer{}, false, err
	}
	defer done()
	answer, fresh, err := s.apps.Receive(ctx, ref, d, now, func(a app.App) (hook.Outcome, error) {
		return c.outcome(a, call, now)
	})
	return answer, fresh, unknown(err)
}

// unknown makes an app that is not there look like one without a webhook.
func unknown(err error) error {
	if problem.Is(err, problem.NotFound) {
		return problem.Of(problem.InvalidToken).Because(err)
	}
	return err
}

// pass tells the function that goes on with what was recorded.
func (s *Service) pass(ctx context.Context, ref app.Ref, a hook.Answer) {
	switch a.Action {
	case hook.Deploy:
		s.deploys.Notify(ctx, app.DeployRequested, ref)
	case hook.Build:
		s.builds.Notify(ctx, app.BuildRequested, ref)
	case hook.Ignore, hook.Pong:
	}
}
