// Package issuers verifies the OpenID Connect tokens that CI systems issue to pipelines (promise
// W13).
//
// Only configured issuers are accepted. OpenID Connect Discovery finds their keys, which must be
// at the issuer's own origin, without redirects. Header members that contain or locate keys (jwk,
// jku, x5c, x5u) are rejected: no token can make this process call a URL.
//
// A token must name its key and be valid for at most 24 hours. Its ID (jti), or its digest if it
// has no ID, can therefore be stored until it expires.
//
// Malformed and expired tokens cause no requests. An unknown key ID causes at most one request in
// [minInterval] for all waiting calls. After [rediscoverAfter], discovery runs again, and
// withdrawn keys are rejected. If an issuer does not respond, only its own pipelines get 503.
package issuers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	skew = time.Minute

	maxValidity = 24 * time.Hour

	rediscoverAfter = 15 * time.Minute

	// minInterval is the shortest interval between two requests to an issuer for keys, and the
	// pause after a failed discovery.
	minInterval = 10 * time.Second

	waiters = 256

	// maxToken limits a token, maxText a claim, in bytes.
	maxToken = 8 << 10
	maxText  = 1 << 10
)

//nolint:gochecknoglobals // a constant list
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// unsupportedHeaders are header members that contain or locate keys, or that require extensions.
//
//nolint:gochecknoglobals // a constant list
var unsupportedHeaders = []string{"jwk", "jku", "x5c", "x5u", "crit", "b64"}

// Issuers verifies tokens.
type Issuers struct {
	known map[string]*issuer
	now   func() time.Time
}

// New returns Issuers for the given addresses. It returns an error if an address is invalid.
func New(addresses []string, transport http.RoundTripper, log *slog.Logger, now func() time.Time) (*Issuers, error) {
	i := &Issuers{known: map[string]*issuer{}, now: now}
	for _, address := range addresses {
		if err := outbound.CheckAddress(address); err != nil {
			return nil, fmt.Errorf("OIDC_ISSUERS: %w", err)
		}
		i.known[address] = &issuer{
			address: address, transport: transport, log: log, now: now, turn: make(chan struct{}, 1), waiting: make(chan struct{}, waiters),
		}
	}
	return i, nil
}

func refused(reason string) error {
	return problem.FromCode(problem.InvalidToken).WithCause(errors.New(reason))
}

// Verify verifies a token and returns its pipeline. It returns an invalid_token problem, or an
// unavailable problem if the issuer does not respond.
func (i *Issuers) Verify(ctx context.Context, raw string) (app.Pipeline, error) {
	if len(raw) > maxToken || strings.ContainsAny(raw, "\r\n") { // Go's base64 decoder ignores line breaks
		return app.Pipeline{}, refused("the token is too long or contains line breaks")
	}
	claims := jwt.MapClaims{}
	token, _, err := jwt.NewParser(jwt.WithJSONNumber(), jwt.WithStrictDecoding()).ParseUnverified(raw, claims)
	if err != nil {
		return app.Pipeline{}, problem.FromCode(problem.InvalidToken).WithCause(err)
	}
	if err := checkHeader(token.Header); err != nil {
		return app.Pipeline{}, err
	}
	address, _ := claims["iss"].(string)
	from, ok := i.known[address]
	if !ok {
		return app.Pipeline{}, refused("the issuer is not configured")
	}
	p, err := pipelineOf(claims, i.now())
	if err != nil {
		return app.Pipeline{}, err
	}
	if p.TokenID == "" { // the digest excludes the signature, which may have several valid forms
		signed := sha256.Sum256([]byte(raw[:strings.LastIndexByte(raw, '.')]))
		p.TokenID = hex.EncodeToString(signed[:])
	}
	return p, from.verify(ctx, raw)
}

func checkHeader(header map[string]any) error {
	alg, _ := header["alg"].(string)
	kid, _ := header["kid"].(string)
	typ, typed := header["typ"]
	kind, _ := typ.(string)
	switch {
	case !slices.Contains(algorithms, alg):
		return refused("unsupported signature algorithm")
	case kid == "" || len(kid) > maxText:
		return refused("missing or invalid key ID")
	case typed && !strings.EqualFold(kind, "JWT"):
		return refused("the type is not JWT")
	case slices.ContainsFunc(unsupportedHeaders, func(name string) bool { _, has := header[name]; return has }):
		return refused("unsupported header member")
	}
	return nil
}

func pipelineOf(claims jwt.MapClaims, now time.Time) (app.Pipeline, error) {
	ends, err := claims.GetExpirationTime()
	if err != nil || ends == nil || !now.Before(ends.Add(skew)) {
		return app.Pipeline{}, refused("the token has expired or has no expiry")
	}
	issued, err := claims.GetIssuedAt()
	if err != nil || issued == nil || issued.After(now.Add(skew)) || ends.Sub(issued.Time) > maxValidity || ends.Before(issued.Time) {
		return app.Pipeline{}, refused("invalid issue time")
	}
	begins, err := claims.GetNotBefore()
	if err != nil || begins != nil && begins.After(now.Add(skew)) {
		return app.Pipeline{}, refused("the token is not valid yet")
	}
	audience, err := claims.GetAudience()
	if err != nil || len(audience) == 0 {
		return app.Pipeline{}, refused("missing audience")
	}
	id, has := claims["jti"].(string)
	if len(id) > maxText || id == "" && (has || claims["jti"] != nil) {
		return app.Pipeline{}, refused("invalid token ID")
	}
	issuer, _ := claims["iss"].(string)
	p := app.Pipeline{Issuer: issuer, Audience: audience, TokenID: id, Expires: ends.Add(2 * skew), Claims: map[string]string{}}
	for name, value := range claims {
		if text, ok := textOf(value); ok && len(text) <= maxText {
			p.Claims[name] = text
		}
	}
	return p, nil
}

// textOf returns a scalar claim as text for patterns.
func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}
