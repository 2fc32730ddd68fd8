package webhook

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
)

const (
	// syncPatience is for all tokens to be known after the process has started.
	syncPatience = 10 * time.Second

	// looksPerSecond and looksAtOnce bound the questions to the API server on behalf of
	// calls that the tokens in memory do not prove.
	looksPerSecond = 5
	looksAtOnce    = 10
)

// proof is what a call has proven.
type proof struct {
	verified bool   // the caller knows the app's token, or is a pipeline that the app trusts
	body     []byte // of the request
	actor    string // in the deployment history

	// pipeline is nil if the app's own token proved the call.
	pipeline *app.Pipeline
}

// prove verifies that the caller knows the app's token, or is a pipeline that the app trusts,
// and reads the body. An error leaves verified as far as it is known. free releases the body's
// memory and is never nil. Problems: invalid_token; rate_limited; body_too_large,
// malformed_json; unavailable.
func (s *Service) prove(w http.ResponseWriter, r *http.Request, ref app.Ref) (p proof, free func(), err error) {
	p, free = proof{actor: actor}, func() {}
	claim, ok := hook.ClaimOf(r.Header)
	switch {
	case !ok:
		if p.pipeline, p.actor, err = s.identify(r, ref, s.calls); err != nil {
			return p, free, err
		}
	case !claim.CarriesToken(): // a signature proves nothing before the body is read
		s.readWithin(w, unprovenRead)
		if p.body, free, err = s.strangers.Read(w, r, trace.Network(r.Context())); err != nil {
			return p, free, err
		}
		p.verified, err = s.admit(r.Context(), ref, s.calls, claim, func(t hook.Token) bool { return claim.Proves(t, p.body) })
		return p, free, err
	default:
		if p.verified, err = s.admit(r.Context(), ref, s.calls, claim, claim.Knows); err != nil {
			return p, free, err
		}
	}
	p.verified = true
	if p.body, free, err = s.pipelines.Read(w, r, ref.String()); err != nil || p.pipeline != nil {
		return p, free, err
	}
	// The token may have changed while the body arrived, and a signature may be sent with it.
	token, err := s.tokens.WebhookToken(r.Context(), ref)
	switch {
	case err != nil && !problem.Is(err, problem.NotFound):
		return p, free, err
	case err != nil || !claim.Proves(token, p.body):
		p.verified = false
		return p, free, problem.Of(problem.InvalidToken)
	}
	return p, free, nil
}

// identify returns the pipeline that the request's token names, and its name in the deployment
// history. It reads the app for each token that an issuer verifies, so a trust that is removed
// ends at once. Problems: invalid_token; rate_limited; unavailable.
func (s *Service) identify(r *http.Request, ref app.Ref, limit *limit) (*app.Pipeline, string, error) {
	raw, ok := hook.BearerOf(r.Header)
	if !ok || !app.ValidNamespace(ref.Namespace) || !app.ValidLabel(ref.Name) {
		return nil, "", problem.Of(problem.InvalidToken)
	}
	pipeline, err := s.issuers.Verify(r.Context(), raw)
	if err != nil {
		return nil, "", s.notTrusted(r.Context(), err)
	}
	// Anybody may have a pipeline somewhere, so its reads from the store are limited.
	if err := s.identified.take(pipeline.Owner(), s.now()); err != nil {
		return nil, "", err
	}
	a, err := s.apps.App(r.Context(), ref.Namespace, ref.Name)
	if err != nil {
		return nil, "", s.notTrusted(r.Context(), unknown(err))
	}
	trust, ok := app.Admitting(a.Trusts, pipeline)
	if !ok {
		return nil, "", problem.Of(problem.InvalidToken)
	}
	return &pipeline, trust.Actor(pipeline), limit.take(ref.String(), s.now())
}

// notTrusted logs why a pipeline's token is invalid, which the response does not say.
func (s *Service) notTrusted(ctx context.Context, err error) error {
	if problem.Is(err, problem.InvalidToken) {
		s.log.InfoContext(ctx, "pipeline not trusted", "error", err)
	}
	return err
}

// admit verifies a claim against the app's token in memory, and then against the API server,
// so that a token is invalid as soon as it is replaced, however late the watch is. A claim that
// memory verifies counts against the app. known reports whether the claim is proven, with an
// error too. Problems: invalid_token; rate_limited; unavailable.
func (s *Service) admit(ctx context.Context, ref app.Ref, limit *limit, claim hook.Claim, proves func(hook.Token) bool) (known bool, err error) {
	remembered, err := s.remembered(ctx, ref)
	if err != nil {
		return false, err
	}
	inMemory := proves(remembered)
	if !inMemory && !s.mayLook(ref, claim) {
		return false, problem.Of(problem.InvalidToken)
	}
	if inMemory {
		if err := limit.take(ref.String(), s.now()); err != nil {
			return true, err
		}
	}
	token, err := s.tokens.WebhookToken(ctx, ref)
	switch {
	case inMemory && err != nil && !problem.Is(err, problem.NotFound):
		return true, err
	case err != nil || !proves(token):
		return false, problem.Of(problem.InvalidToken)
	case !inMemory:
		return true, limit.take(ref.String(), s.now())
	}
	return true, nil
}

// remembered is an app's token as the watch has told it. Where there is none it is one
// that nobody knows, so that every name takes the same way. Problem: unavailable before
// the first list is in.
func (s *Service) remembered(ctx context.Context, ref app.Ref) (hook.Token, error) {
	ctx, cancel := context.WithDeadline(ctx, s.started.Add(syncPatience))
	defer cancel()
	select {
	case <-s.watched.Synced():
	default:
		select {
		case <-s.watched.Synced():
		case <-ctx.Done():
			return "", problem.Of(problem.Unavailable).Because(errors.New("the webhooks' tokens are not known yet"))
		}
	}
	if token, ok := s.watched.Token(ref); ok {
		return token, nil
	}
	return s.nobodys, nil
}

// mayLook tells whether a call that is not proven from memory is worth a question: its
// token may be so new that the watch has not told of it. The few questions that there
// are for all of them together cannot hold up the proven ones.
func (s *Service) mayLook(ref app.Ref, claim hook.Claim) bool {
	valid := app.ValidNamespace(ref.Namespace) && app.ValidLabel(ref.Name) // they become part of paths
	return valid && claim.Formed() && s.looks.AllowN(s.clock(), 1)
}

// readWithin bounds what is left of the request's body in time.
func (s *Service) readWithin(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(s.clock().Add(d)) // where there is no connection there is nothing to bound
}
