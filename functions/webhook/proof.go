package webhook

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
)

const (
	// syncPatience is the time after startup by which the first list of tokens must arrive.
	syncPatience = 10 * time.Second

	lookupsPerSecond = 5
	lookupBurst      = 10
)

type proof struct {
	verified bool // the caller has the app's token, or is a trusted pipeline
	body     []byte
	actor    string // for the deployment history

	// pipeline is nil if the call was verified with the app's token.
	pipeline *app.Pipeline
}

// prove verifies the call and reads the body. p.verified can be true even with an error: the call
// was then rejected for another reason. free releases the body's memory and is never nil.
func (s *Service) prove(w http.ResponseWriter, r *http.Request, ref app.Ref) (p proof, free func(), err error) {
	p, free = proof{actor: actor}, func() {}
	claim, ok := hook.ClaimOf(r.Header)
	switch {
	case !ok:
		if p.pipeline, p.actor, err = s.identify(r, ref, s.calls); err != nil {
			return p, free, err
		}
	case !claim.CarriesToken(): // a signature needs the body
		s.readWithin(w, unverifiedRead)
		if p.body, free, err = s.signedBodies.Read(w, r, reqctx.Network(r.Context())); err != nil {
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
	if p.body, free, err = s.tokenBodies.Read(w, r, ref.String()); err != nil || p.pipeline != nil {
		return p, free, err
	}
	// The token may have changed while the body was read, and the call may also carry a signature.
	token, err := s.tokens.WebhookToken(r.Context(), ref)
	switch {
	case err != nil && !problem.Is(err, problem.NotFound):
		return p, free, err
	case err != nil || !claim.Proves(token, p.body):
		p.verified = false
		return p, free, problem.FromCode(problem.InvalidToken)
	}
	return p, free, nil
}

// identify returns the pipeline of the request's token and its name in the deployment history. It
// reads the app each time, so the removal of a trust takes effect immediately.
func (s *Service) identify(r *http.Request, ref app.Ref, limit *limit) (*app.Pipeline, string, error) {
	raw, ok := hook.BearerOf(r.Header)
	if !ok || !app.ValidNamespace(ref.Namespace) || !app.ValidLabel(ref.Name) {
		return nil, "", problem.FromCode(problem.InvalidToken)
	}
	pipeline, err := s.issuers.Verify(r.Context(), raw)
	if err != nil {
		return nil, "", s.logUntrusted(r.Context(), err)
	}
	// Anyone can run pipelines, so the store reads are limited.
	if err := s.identified.take(pipeline.Owner(), s.now()); err != nil {
		return nil, "", err
	}
	a, err := s.apps.App(r.Context(), ref.Namespace, ref.Name)
	if err != nil {
		return nil, "", s.logUntrusted(r.Context(), hideMissing(err))
	}
	trust, ok := app.FirstMatch(a.Trusts, pipeline)
	if !ok {
		return nil, "", problem.FromCode(problem.InvalidToken)
	}
	return &pipeline, trust.Actor(pipeline), limit.take(ref.String(), s.now())
}

func (s *Service) logUntrusted(ctx context.Context, err error) error {
	if problem.Is(err, problem.InvalidToken) {
		s.log.InfoContext(ctx, "pipeline not trusted", "error", err)
	}
	return err
}

// admit verifies a claim against the app's token, first in memory and then in the API server. It
// counts verified calls against the limit. known reports whether the call is verified; it can be
// true even with an error.
func (s *Service) admit(ctx context.Context, ref app.Ref, limit *limit, claim hook.Claim, proves func(hook.Token) bool) (known bool, err error) {
	remembered, err := s.remembered(ctx, ref)
	if err != nil {
		return false, err
	}
	inMemory := proves(remembered)
	if !inMemory && !s.mayLookUp(ref, claim) {
		return false, problem.FromCode(problem.InvalidToken)
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
		return false, problem.FromCode(problem.InvalidToken)
	case !inMemory:
		return true, limit.take(ref.String(), s.now())
	}
	return true, nil
}

// remembered returns the app's token from the watch, or the decoy if there is none. It waits for
// the first list of tokens. It returns an unavailable problem if the list does not arrive in time.
func (s *Service) remembered(ctx context.Context, ref app.Ref) (hook.Token, error) {
	ctx, cancel := context.WithDeadline(ctx, s.started.Add(syncPatience))
	defer cancel()
	select {
	case <-s.watched.Synced():
	default:
		select {
		case <-s.watched.Synced():
		case <-ctx.Done():
			return "", problem.FromCode(problem.Unavailable).WithCause(errors.New("the webhook tokens are not loaded yet"))
		}
	}
	if token, ok := s.watched.Token(ref); ok {
		return token, nil
	}
	return s.decoy, nil
}

// mayLookUp reports whether to check a claim in the API server although memory rejects it. Its
// token may be newer than the watch.
func (s *Service) mayLookUp(ref app.Ref, claim hook.Claim) bool {
	valid := app.ValidNamespace(ref.Namespace) && app.ValidLabel(ref.Name) // they become part of paths
	return valid && claim.Formed() && s.lookups.AllowN(s.clock(), 1)
}

func (s *Service) readWithin(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(s.clock().Add(d)) // fails only in tests without a connection
}
