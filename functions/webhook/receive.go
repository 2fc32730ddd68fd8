package webhook

import (
	"context"
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
)

// maxBody bounds a call's body, in bytes (decisions section 1).
const maxBody = 1 << 20

// receive takes a call. Problems: rate_limited, body_too_large, invalid_token,
// unsupported_media_type; those of the payload; image_required,
// git_source_attached, invalid_image; conflict for a delivery that came with
// another body; unavailable.
func (s *Service) receive(w http.ResponseWriter, r *http.Request) error {
	answer, fresh, err := s.take(w, r)
	if err != nil {
		s.calls.WithLabelValues(failure(err)).Inc()
		return err
	}
	s.calls.WithLabelValues(taken(answer, fresh)).Inc()
	return reply(w, answer, fresh)
}

// take does what a call asks for, and tells what that was.
func (s *Service) take(w http.ResponseWriter, r *http.Request) (answer hook.Answer, fresh bool, err error) {
	ref := app.Ref{Namespace: r.PathValue("namespace"), Name: r.PathValue("app")}
	if err := s.limit.take(ref, s.now()); err != nil {
		return hook.Answer{}, false, err
	}
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return hook.Answer{}, false, err
	}
	if err := s.prove(r, ref, body); err != nil {
		return hook.Answer{}, false, err
	}
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

// prove lets only those through who know the app's token. Problems: invalid_token,
// unavailable.
func (s *Service) prove(r *http.Request, ref app.Ref, body []byte) error {
	token, err := s.token(r.Context(), ref)
	if err != nil {
		return err
	}
	if !hook.Proven(token, r.Header, body) {
		return problem.Of(problem.InvalidToken)
	}
	return nil
}

// token reads an app's token. Where there is none it is one that nobody knows.
func (s *Service) token(ctx context.Context, ref app.Ref) (hook.Token, error) {
	if !app.ValidNamespace(ref.Namespace) || !app.ValidLabel(ref.Name) { // they become part of paths
		return s.nobodys, nil
	}
	token, err := s.tokens.WebhookToken(ctx, ref)
	if problem.Is(err, problem.NotFound) {
		return s.nobodys, nil
	}
	return token, err
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
		s.deploys.Tell(ctx, app.DeployRequested, ref)
	case hook.Build:
		s.builds.Tell(ctx, app.BuildRequested, ref)
	case hook.Ignore, hook.Pong:
	}
}
