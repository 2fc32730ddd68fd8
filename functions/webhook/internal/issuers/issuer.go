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

type issuer struct {
	address   string
	transport http.RoundTripper
	log       *slog.Logger
	now       func() time.Time
	waiting   chan struct{} // semaphore
	turn      chan struct{} // semaphore of one slot, for discovery

	mu     sync.Mutex
	keys   oidc.KeySet
	since  time.Time // last discovery
	failed time.Time // last failed discovery; zero if the last one succeeded
	asked  time.Time // last request for the keys
	answer error     // of the last request for the keys
}

// verify checks a token's signature. It returns an unavailable problem if the keys cannot be read.
func (i *issuer) verify(ctx context.Context, raw string) error {
	select {
	case i.waiting <- struct{}{}:
		defer func() { <-i.waiting }()
	default:
		return problem.FromCode(problem.Unavailable).WithCause(fmt.Errorf("too many calls wait for issuer %s", i.address))
	}
	ctx, cancel := context.WithTimeout(ctx, outbound.Patience)
	defer cancel()
	keys, err := i.keySet(ctx)
	if err != nil {
		return problem.FromCode(problem.Unavailable).WithCause(err)
	}
	set := &trackingKeySet{KeySet: keys}
	verifier := oidc.NewVerifier(i.address, set, &oidc.Config{
		SupportedSigningAlgs: algorithms, SkipExpiryCheck: true, // pipelineOf checks the times
		SkipClientIDCheck: true, // each trust has its own audience
	})
	_, err = verifier.Verify(ctx, raw)
	switch {
	case err == nil:
		return nil
	case set.unavailable != nil:
		return problem.FromCode(problem.Unavailable).WithCause(set.unavailable)
	}
	return problem.FromCode(problem.InvalidToken).WithCause(err)
}

func (i *issuer) keySet(ctx context.Context) (oidc.KeySet, error) {
	if keys, err := i.cached(); keys != nil || err != nil {
		return keys, err
	}
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if keys, err := i.cached(); keys != nil || err != nil {
		return keys, err
	}
	keys, err := i.discover(context.WithoutCancel(ctx)) // other calls wait for the result
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.since, i.failed, i.asked = keys, i.now(), time.Time{}, time.Time{}
	if err != nil {
		i.keys, i.failed = nil, i.now()
		i.log.WarnContext(ctx, "discover issuer failed", "issuer", i.address, "error", err)
	}
	return i.keys, err
}

// cached returns the keys if they are recent, an error shortly after a failure, and nil if
// discovery is due.
func (i *issuer) cached() (oidc.KeySet, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.keys != nil && i.now().Sub(i.since) < rediscoverAfter {
		return i.keys, nil
	}
	if !i.failed.IsZero() && i.now().Sub(i.failed) < minInterval {
		return nil, fmt.Errorf("issuer %s recently failed", i.address)
	}
	return nil, nil //nolint:nilnil // see the doc comment
}

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
		return nil, fmt.Errorf("issuer %s has keys at another origin, %.200q", i.address, found.Keys)
	}
	return oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &http.Client{Timeout: outbound.Patience, Transport: limitedTransport{i}}), found.Keys), nil
}

func sameOrigin(a, b string) bool {
	one, err := url.Parse(a)
	if err != nil {
		return false
	}
	other, err := url.Parse(b)
	return err == nil && one.Scheme == other.Scheme && one.Host == other.Host && other.User == nil
}

// trackingKeySet distinguishes a wrong signature from keys that cannot be read.
type trackingKeySet struct {
	oidc.KeySet

	unavailable error
}

func (h *trackingKeySet) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	payload, err := h.KeySet.VerifySignature(ctx, raw)
	if errors.Is(err, outbound.ErrNoAnswer) || ctx.Err() != nil {
		h.unavailable = err
	}
	return payload, err
}

var errTooSoon = errors.New("the issuer's keys were read recently")

// limitedTransport limits the rate of requests for keys: each unknown key ID in a token causes one.
type limitedTransport struct{ *issuer }

func (r limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	now := r.now()
	soon, before := !r.asked.IsZero() && now.Sub(r.asked) < minInterval, r.answer
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
		r.log.WarnContext(req.Context(), "read issuer keys failed", "issuer", r.address, "error", err)
	}
	return resp, err
}
