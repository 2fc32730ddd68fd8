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
	maxToken = 4 << 10 // bytes; session tokens have about 500

	// clockSkew is the tolerated difference between the clocks of replicas.
	clockSkew = time.Minute
)

type claims struct {
	jwt.RegisteredClaims
	Admin   bool   `json:"admin"` // only for functions of earlier releases
	CSRF    string `json:"csrf"`
	Version int64  `json:"ver"`
}

// Validate implements [jwt.ClaimsValidator].
func (c claims) Validate() error {
	switch {
	case !user.ValidName(c.Subject):
		return errors.New("sub is not a username")
	case !validSessionID(c.ID):
		return errors.New("jti is not a session ID")
	case c.CSRF == "":
		return errors.New("csrf is missing")
	case c.IssuedAt == nil || c.ExpiresAt == nil:
		return errors.New("iat or exp is missing")
	case c.ExpiresAt.Sub(c.IssuedAt.Time) > SessionTTL:
		return errors.New("the token is valid for longer than a session")
	}
	return nil
}

// Sign returns the token of a session.
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

// Verify returns the session of a token. It does not check whether the session has ended or whether
// its user is an admin; see [Guard]. It returns an unauthenticated problem, or an unavailable
// problem if the keys cannot be read.
func (k *Keyring) Verify(t Token) (Session, error) {
	var c claims
	if err := k.verify(t, issuer, &c); err != nil {
		return Session{}, err
	}
	return Session{
		ID: c.ID, Caller: Caller{Username: c.Subject}, CSRF: c.CSRF, Version: c.Version,
		IssuedAt: c.IssuedAt.UTC(), ExpiresAt: c.ExpiresAt.UTC(),
	}, nil
}

func (k *Keyring) verify(t Token, issuer string, c jwt.Claims) error {
	if len(t) > maxToken {
		return problem.FromCode(problem.Unauthenticated)
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
		return problem.FromCode(problem.Unauthenticated).WithCause(err)
	}
	return nil
}

func (k *Keyring) issued(c jwt.Claims) error {
	at, err := c.GetIssuedAt()
	if err == nil && at != nil && at.After(k.now().Add(clockSkew)) {
		err = jwt.ErrTokenUsedBeforeIssued
	}
	return err
}
