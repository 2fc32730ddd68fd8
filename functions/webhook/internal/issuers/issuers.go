// Package issuers proves who a pipeline is by the token that its provider has issued to it
// (OpenID Connect; promise W13).
//
// # What is believed
//
// An issuer is believed that the installation's operator has named, and no other. Its keys
// are found as OpenID Connect Discovery has it, below the issuer's own address and on the
// issuer's own host; a redirect is not followed, and nothing that a token itself says about
// keys (jwk, jku, x5c, x5u, crit) is looked at but to refuse it. So a token cannot make this
// process call an address. Answers are bounded in size and in time.
//
// A token is signed by an asymmetric algorithm, names its key, and is taken from a minute
// before it begins to a minute after it ends, which is what clocks may differ. It ends
// within a day, so that its id (jti), or else a digest of it, can be remembered until then.
//
// # What a stranger can make it do
//
// Reading and the checks of time come before any question to an issuer. Keys are asked for
// when a token names one that is not known, by all who wait together, and at most once in
// [between]; so a key that an issuer has just begun to use is known that much later at the
// worst. What is known is forgotten after [kept], so that a key which an issuer has
// withdrawn is worth nothing from then on. While an issuer cannot be asked for keys that
// are needed, its pipelines are told that something is unavailable, those of other issuers
// go on.
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
	// skew is what clocks may differ.
	skew = time.Minute

	// longest is how long a token may be good for.
	longest = 24 * time.Hour

	// kept is how long keys are believed without asking again.
	kept = 15 * time.Minute

	// between is the least time from one question to an issuer to the next.
	between = 10 * time.Second

	// waiters bounds the calls that wait for one issuer at a time.
	waiters = 256

	// maxToken bounds a token and maxText a claim of it, in bytes.
	maxToken = 8 << 10
	maxText  = 1 << 10
)

// algorithms are those by which a token may be signed.
//
//nolint:gochecknoglobals // a constant list
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// foreign are the members of a token's header that say where its key is to be had, or ask
// for what is not done here.
//
//nolint:gochecknoglobals // a constant list
var foreign = []string{"jwk", "jku", "x5c", "x5u", "crit", "b64"}

// Issuers are those who are believed.
type Issuers struct {
	known map[string]*issuer
	now   func() time.Time
}

// New makes those who are believed of their addresses. transport carries the questions to
// them.
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

// refused is why a token is worth nothing; what is wrong with it is for the log alone.
func refused(why string) error { return problem.Of(problem.InvalidToken).Because(errors.New(why)) }

// Verify tells which pipeline a token is about. Problems: invalid_token; unavailable when
// its issuer cannot be asked.
func (i *Issuers) Verify(ctx context.Context, raw string) (app.Pipeline, error) {
	if len(raw) > maxToken || strings.ContainsAny(raw, "\r\n") { // which Go's base64 does not see
		return app.Pipeline{}, refused("it is too long, or of several lines")
	}
	claims := jwt.MapClaims{}
	token, _, err := jwt.NewParser(jwt.WithJSONNumber(), jwt.WithStrictDecoding()).ParseUnverified(raw, claims)
	if err != nil {
		return app.Pipeline{}, problem.Of(problem.InvalidToken).Because(err)
	}
	if err := checkHeader(token.Header); err != nil {
		return app.Pipeline{}, err
	}
	address, _ := claims["iss"].(string)
	from, ok := i.known[address]
	if !ok {
		return app.Pipeline{}, refused("the issuer is not one that is believed")
	}
	p, err := pipelineOf(claims, i.now())
	if err != nil {
		return app.Pipeline{}, err
	}
	if p.TokenID == "" { // then it is told by all that is signed of it
		signed := sha256.Sum256([]byte(raw[:strings.LastIndexByte(raw, '.')]))
		p.TokenID = hex.EncodeToString(signed[:])
	}
	return p, from.verify(ctx, raw)
}

// checkHeader looks at what a token says of its signature. Problem: invalid_token.
func checkHeader(header map[string]any) error {
	alg, _ := header["alg"].(string)
	kid, _ := header["kid"].(string)
	typ, typed := header["typ"]
	kind, _ := typ.(string)
	switch {
	case !slices.Contains(algorithms, alg):
		return refused("its algorithm is none that is taken")
	case kid == "" || len(kid) > maxText:
		return refused("it does not name its key")
	case typed && !strings.EqualFold(kind, "JWT"):
		return refused("it is of another type")
	case slices.ContainsFunc(foreign, func(name string) bool { _, has := header[name]; return has }):
		return refused("its header says more than it may")
	}
	return nil
}

// pipelineOf reads what a token says, and checks its times. Problem: invalid_token.
func pipelineOf(claims jwt.MapClaims, now time.Time) (app.Pipeline, error) {
	ends, err := claims.GetExpirationTime()
	if err != nil || ends == nil || !now.Before(ends.Add(skew)) {
		return app.Pipeline{}, refused("it has ended, or never does")
	}
	issued, err := claims.GetIssuedAt()
	if err != nil || issued == nil || issued.After(now.Add(skew)) || ends.Sub(issued.Time) > longest || ends.Before(issued.Time) {
		return app.Pipeline{}, refused("it was not issued at a possible time")
	}
	begins, err := claims.GetNotBefore()
	if err != nil || begins != nil && begins.After(now.Add(skew)) {
		return app.Pipeline{}, refused("it does not count yet")
	}
	audience, err := claims.GetAudience()
	if err != nil || len(audience) == 0 {
		return app.Pipeline{}, refused("it is meant for nobody")
	}
	id, has := claims["jti"].(string)
	if len(id) > maxText || id == "" && (has || claims["jti"] != nil) {
		return app.Pipeline{}, refused("its id is none")
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

// textOf is a claim's value as patterns see it; lists and objects have none.
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
