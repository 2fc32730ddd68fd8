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

// prove lets only those through who know the app's token, and reads the body. free
// gives the body's memory back and is never nil. Problems: invalid_token; rate_limited;
// body_too_large, malformed_json; unavailable.
func (s *Service) prove(w http.ResponseWriter, r *http.Request, ref app.Ref) (body []byte, free func(), err error) {
	free = func() {}
	claim, ok := hook.ClaimOf(r.Header)
	if !ok {
		return nil, free, s.refuse(w, r)
	}
	if !claim.CarriesToken() { // nothing is proven before the body is there
		s.readWithin(w, unprovenRead)
		if body, free, err = s.strangers.read(w, r, trace.Network(r, s.trust)); err != nil {
			return nil, free, err
		}
		_, err = s.admit(w, r, ref, s.calls, claim, func(t hook.Token) bool { return claim.Proves(t, body) })
		return body, free, err
	}
	token, err := s.admit(w, r, ref, s.calls, claim, claim.Knows)
	if err != nil {
		return nil, free, err
	}
	if body, free, err = s.pipelines.read(w, r, ref.String()); err != nil {
		return nil, free, err
	}
	if !claim.Proves(token, body) { // a signature beside the token
		return nil, free, s.refuse(w, r)
	}
	return body, free, nil
}

// admit takes a call for an app whose token it knows, and gives the token. Refusals come
// from memory; a call that is proven there counts against the app and is proven once
// more against the API server, so that a token that is worth nothing any more opens
// nothing, however late the watch tells. Problems: invalid_token; rate_limited;
// unavailable.
func (s *Service) admit(w http.ResponseWriter, r *http.Request, ref app.Ref, limit *limit, claim hook.Claim, proven func(hook.Token) bool) (hook.Token, error) {
	remembered, err := s.remembered(r.Context(), ref)
	if err != nil {
		return "", err
	}
	known := proven(remembered)
	if !known && !s.mayLook(ref, claim) {
		return "", s.refuse(w, r)
	}
	if known {
		if err := limit.take(ref.String(), s.now()); err != nil {
			return "", err
		}
	}
	token, err := s.tokens.WebhookToken(r.Context(), ref)
	if known && err != nil && !problem.Is(err, problem.NotFound) {
		return "", err
	}
	if err != nil || !proven(token) {
		return "", s.refuse(w, r)
	}
	if !known {
		return token, limit.take(ref.String(), s.now())
	}
	return token, nil
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
	if err := s.refusals.take(trace.Network(r, s.trust), s.now()); err != nil {
		return err
	}
	return problem.Of(problem.InvalidToken)
}

// readWithin bounds what is left of the request's body in time.
func (s *Service) readWithin(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(s.clock().Add(d)) // where there is no connection there is nothing to bound
}
