package issuers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/problem"
)

// issuer is one that is believed.
type issuer struct {
	address   string
	transport http.RoundTripper
	log       *slog.Logger
	now       func() time.Time
	waiting   chan struct{} // has room for those who may wait
	turn      chan struct{} // is held by who finds out where the keys are

	mu     sync.Mutex
	keys   oidc.KeySet
	since  time.Time // when it was found out where they are
	failed time.Time // when that failed last; zero when it did not
	asked  time.Time // when the keys themselves were asked for last
	answer error     // what came of that
}

// verify checks a token's signature. Problems: invalid_token; unavailable.
func (i *issuer) verify(ctx context.Context, raw string) error {
	select {
	case i.waiting <- struct{}{}:
		defer func() { <-i.waiting }()
	default:
		return problem.Of(problem.Unavailable).Because(fmt.Errorf("too many wait for issuer %s", i.address))
	}
	ctx, cancel := context.WithTimeout(ctx, outbound.Patience)
	defer cancel()
	keys, err := i.keySet(ctx)
	if err != nil {
		return problem.Of(problem.Unavailable).Because(err)
	}
	set := &heard{KeySet: keys}
	verifier := oidc.NewVerifier(i.address, set, &oidc.Config{
		SupportedSigningAlgs: algorithms, SkipExpiryCheck: true, // with bounds of its own, see pipelineOf
		SkipClientIDCheck: true, // each trust has an audience of its own
	})
	_, err = verifier.Verify(ctx, raw)
	switch {
	case err == nil:
		return nil
	case set.silence != nil:
		return problem.Of(problem.Unavailable).Because(set.silence)
	}
	return problem.Of(problem.InvalidToken).Because(err)
}

// keySet gives the issuer's keys, and finds out where they are if that is not known, or was
// too long ago.
func (i *issuer) keySet(ctx context.Context) (oidc.KeySet, error) {
	if keys, err := i.remembered(); keys != nil || err != nil {
		return keys, err
	}
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if keys, err := i.remembered(); keys != nil || err != nil {
		return keys, err
	}
	keys, err := i.discover(context.WithoutCancel(ctx)) // for those who wait too
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.since, i.failed, i.asked = keys, i.now(), time.Time{}, time.Time{}
	if err != nil {
		i.keys, i.failed = nil, i.now()
		i.log.WarnContext(ctx, "discover issuer failed", "issuer", i.address, "error", err)
	}
	return i.keys, err
}

// remembered gives the keys while they count, an error shortly after a failure, and
// neither when it is time to ask.
func (i *issuer) remembered() (oidc.KeySet, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.keys != nil && i.now().Sub(i.since) < kept {
		return i.keys, nil
	}
	if !i.failed.IsZero() && i.now().Sub(i.failed) < between {
		return nil, fmt.Errorf("issuer %s could not be asked a moment ago", i.address)
	}
	return nil, nil //nolint:nilnil // as the comment says
}

// discover finds out where the issuer's keys are.
func (i *issuer) discover(ctx context.Context) (oidc.KeySet, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, outbound.Client(i.transport)), outbound.Patience)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, i.address)
	if err != nil {
		return nil, fmt.Errorf("discover issuer %s: %w", i.address, err)
	}
	var found struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&found); err != nil {
		return nil, fmt.Errorf("discover issuer %s: %w", i.address, err)
	}
	if !sameOrigin(i.address, found.Keys) {
		return nil, fmt.Errorf("issuer %s has its keys elsewhere, at %.200q", i.address, found.Keys)
	}
	return oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &http.Client{Timeout: outbound.Patience, Transport: rationed{i}}), found.Keys), nil
}

func sameOrigin(a, b string) bool {
	one, err := url.Parse(a)
	if err != nil {
		return false
	}
	other, err := url.Parse(b)
	return err == nil && one.Scheme == other.Scheme && one.Host == other.Host && other.User == nil
}

// heard is a key set that tells apart a signature that is wrong from keys that could not
// be had.
type heard struct {
	oidc.KeySet

	silence error
}

// VerifySignature implements [oidc.KeySet].
func (h *heard) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	payload, err := h.KeySet.VerifySignature(ctx, raw)
	if errors.Is(err, outbound.ErrNoAnswer) || ctx.Err() != nil {
		h.silence = err
	}
	return payload, err
}

// errTooSoon is of an issuer that has answered a moment ago.
var errTooSoon = errors.New("the issuer's keys were asked for a moment ago")

// rationed asks for an issuer's keys, and not too often: whoever makes up a key's name
// causes a question.
type rationed struct{ *issuer }

// RoundTrip implements [http.RoundTripper].
func (r rationed) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	now := r.now()
	soon, before := !r.asked.IsZero() && now.Sub(r.asked) < between, r.answer
	if !soon {
		r.asked, r.answer = now, nil
	}
	r.mu.Unlock()
	if soon && before == nil {
		before = errTooSoon
	}
	if soon {
		return nil, before
	}
	resp, err := outbound.Bounded{RoundTripper: r.transport}.RoundTrip(req)
	if err != nil {
		r.mu.Lock()
		r.answer = err
		r.mu.Unlock()
		r.log.WarnContext(req.Context(), "read issuer's keys failed", "issuer", r.address, "error", err)
	}
	return resp, err
}
