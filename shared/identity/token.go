package identity

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	issuer   = "sluice"
	maxToken = 4 << 10 // bytes; one of ours has about 500

	// clockSkew is how far another replica's clock may be ahead of ours.
	clockSkew = time.Minute
)

// claims are a token's payload.
type claims struct {
	jwt.RegisteredClaims
	Admin   bool   `json:"admin"`
	CSRF    string `json:"csrf"`
	Version int64  `json:"ver"`
}

// Validate is called by the parser once the signature is found good; what it says
// of exp and iss is added to this.
func (c claims) Validate() error {
	switch {
	case !user.ValidName(c.Subject):
		return errors.New("sub is no username")
	case !validSessionID(c.ID):
		return errors.New("jti is no session's")
	case c.CSRF == "":
		return errors.New("csrf is missing")
	case c.IssuedAt == nil || c.ExpiresAt == nil:
		return errors.New("iat or exp is missing")
	case c.ExpiresAt.Sub(c.IssuedAt.Time) > SessionTTL:
		return errors.New("it lasts longer than a session does")
	}
	return nil
}

// Sign makes the token of a session.
func (k *Keyring) Sign(s Session) (Token, error) {
	t, err := k.sign(claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: s.Caller.Username, ID: s.ID,
			IssuedAt: jwt.NewNumericDate(s.IssuedAt), ExpiresAt: jwt.NewNumericDate(s.ExpiresAt),
		},
		Admin: s.Caller.Admin, CSRF: s.CSRF, Version: s.Version,
	})
	if err != nil {
		return "", fmt.Errorf("sign session of %s: %w", s.Caller.Username, err)
	}
	return t, nil
}

func (k *Keyring) sign(c jwt.Claims) (Token, error) {
	key, kid, err := k.signer()
	if err != nil {
		return "", err
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	t.Header["kid"] = kid
	signed, err := t.SignedString(key)
	return Token(signed), err
}

// Verify reads a token: EdDSA only, signed by a known key, ours, not expired, not
// from the future. Whether the session was ended meanwhile is [Guard]'s to ask.
// Problems: unauthenticated; unavailable, while the keys cannot be read.
func (k *Keyring) Verify(t Token) (Session, error) {
	var c claims
	if err := k.verify(t, issuer, &c); err != nil {
		return Session{}, err
	}
	return Session{
		ID: c.ID, Caller: Caller{Username: c.Subject, Admin: c.Admin}, CSRF: c.CSRF, Version: c.Version,
		IssuedAt: c.IssuedAt.UTC(), ExpiresAt: c.ExpiresAt.UTC(),
	}, nil
}

// verify reads a token of an issuer of ours into c.
func (k *Keyring) verify(t Token, issuer string, c jwt.Claims) error {
	if len(t) > maxToken {
		return problem.Of(problem.Unauthenticated)
	}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(issuer),
		jwt.WithExpirationRequired(), jwt.WithStrictDecoding(), jwt.WithTimeFunc(k.now))
	_, err := parser.ParseWithClaims(string(t), c, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		return k.verifier(kid)
	})
	if p := (*problem.Error)(nil); errors.As(err, &p) {
		return p
	}
	if err == nil {
		err = k.issued(c)
	}
	if err != nil {
		return problem.Of(problem.Unauthenticated).Because(err)
	}
	return nil
}

// issued refuses what was issued in the future.
func (k *Keyring) issued(c jwt.Claims) error {
	at, err := c.GetIssuedAt()
	if err == nil && at != nil && at.After(k.now().Add(clockSkew)) {
		err = jwt.ErrTokenUsedBeforeIssued
	}
	return err
}
