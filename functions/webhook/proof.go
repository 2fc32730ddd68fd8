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

// proven is a call that has proven itself.
type proven struct {
	body  []byte
	actor string // who the history says made what it asks for

	// pipeline is whose token it was proven by; nil where that was the app's own.
	pipeline *app.Pipeline
}

// prove lets only those through who know the app's token, or bring one of a pipeline that
// the app trusts, and reads the body. ours tells, beside an error too, whether the call has
// proven itself. free gives the body's memory back and is never nil. Problems:
// invalid_token; rate_limited; body_too_large, malformed_json; unavailable.
func (s *Service) prove(w http.ResponseWriter, r *http.Request, ref app.Ref) (call proven, ours bool, free func(), err error) {
	call, free = proven{actor: actor}, func() {}
	claim, ok := hook.ClaimOf(r.Header)
	switch {
	case !ok:
		if call.pipeline, call.actor, err = s.identify(w, r, ref, s.calls); err != nil {
			return call, false, free, err
		}
		call.body, free, err = s.pipelines.read(w, r, ref.String())
		return call, true, free, err
	case !claim.CarriesToken(): // nothing is proven before the body is there
		s.readWithin(w, unprovenRead)
		if call.body, free, err = s.strangers.read(w, r, trace.Network(r.Context())); err != nil {
			return call, false, free, err
		}
		ours, err = s.admit(w, r, ref, s.calls, claim, func(t hook.Token) bool { return claim.Proves(t, call.body) })
		return call, ours, free, err
	}
	if ours, err = s.admit(w, r, ref, s.calls, claim, claim.Knows); err != nil {
		return call, ours, free, err
	}
	if call.body, free, err = s.pipelines.read(w, r, ref.String()); err != nil {
		return call, true, free, err
	}
	// The token may have changed while the body arrived, and a signature may be sent with it.
	token, err := s.tokens.WebhookToken(r.Context(), ref)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return call, true, free, err
	}
	if err != nil || !claim.Proves(token, call.body) {
		return call, false, free, s.refuse(w, r)
	}
	return call, true, free, nil
}

// identify takes a call of a pipeline that the app trusts, by the token that its provider
// has issued to it, and tells who it is. The app is read anew for each call that an issuer
// vouches for: what is trusted no more opens nothing. Problems: invalid_token;
// rate_limited; unavailable.
func (s *Service) identify(w http.ResponseWriter, r *http.Request, ref app.Ref, limit *limit) (*app.Pipeline, string, error) {
	raw, ok := hook.BearerOf(r.Header)
	if !ok || !app.ValidNamespace(ref.Namespace) || !app.ValidLabel(ref.Name) {
		return nil, "", s.refuse(w, r)
	}
	pipeline, err := s.issuers.Verify(r.Context(), raw)
	if err != nil {
		return nil, "", s.refused(w, r, err)
	}
	// Anybody may have a pipeline somewhere: its questions to the store are counted.
	if err := s.identified.take(pipeline.Owner(), s.now()); err != nil {
		return nil, "", err
	}
	a, err := s.apps.App(r.Context(), ref.Namespace, ref.Name)
	if err != nil {
		return nil, "", s.refused(w, r, unknown(err))
	}
	trust, ok := app.Admitting(a.Trusts, pipeline)
	if !ok {
		return nil, "", s.refuse(w, r)
	}
	return &pipeline, trust.Actor(pipeline), limit.take(ref.String(), s.now())
}

// refused is refuse where the problem is that, and else the error.
func (s *Service) refused(w http.ResponseWriter, r *http.Request, err error) error {
	if problem.Is(err, problem.InvalidToken) {
		s.log.InfoContext(r.Context(), "refuse pipeline", "error", err)
		return s.refuse(w, r)
	}
	return err
}

// admit takes a call for an app whose token it knows. Refusals come
// from memory; a call that is proven there counts against the app and is proven once
// more against the API server, so that a token that is worth nothing any more opens
// nothing, however late the watch tells. known is as proven of prove. Problems:
// invalid_token; rate_limited; unavailable.
func (s *Service) admit(w http.ResponseWriter, r *http.Request, ref app.Ref, limit *limit, claim hook.Claim, proven func(hook.Token) bool) (known bool, err error) {
	remembered, err := s.remembered(r.Context(), ref)
	if err != nil {
		return false, err
	}
	inMemory := proven(remembered)
	if !inMemory && !s.mayLook(ref, claim) {
		return false, s.refuse(w, r)
	}
	if inMemory {
		if err := limit.take(ref.String(), s.now()); err != nil {
			return true, err
		}
	}
	token, err := s.tokens.WebhookToken(r.Context(), ref)
	if inMemory && err != nil && !problem.Is(err, problem.NotFound) {
		return true, err
	}
	if err != nil || !proven(token) {
		return false, s.refuse(w, r)
	}
	if !inMemory {
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

// refuse says that a call is not proven, and counts it against the address that it comes
// from, never against the app. Problems: invalid_token, always the same; rate_limited.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request) error {
	s.readWithin(w, unprovenRead)
	if err := s.refusals.take(trace.Network(r.Context()), s.now()); err != nil {
		return err
	}
	return problem.Of(problem.InvalidToken)
}

// readWithin bounds what is left of the request's body in time.
func (s *Service) readWithin(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(s.clock().Add(d)) // where there is no connection there is nothing to bound
}
