package identity

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicegate/sluice/shared/identity/user"
)

const (
	// DeviceTTL is how long a device is known after its last sign-in.
	DeviceTTL = 90 * 24 * time.Hour

	// deviceIssuer keeps a device's token from being taken for a session's.
	deviceIssuer = "sluice-device"
)

// Device is where a user has signed in before: a browser, or a command line. It opens
// nothing. Its failures are counted for itself, so that strangers who guess the user's
// password cannot keep its owner from signing in.
type Device struct {
	ID       string // 26 of [A-Z2-7], the same with every sign-in
	Username string
	Version  int64 // of the user's password when it signed in: a later one makes it a stranger
}

// NewDevice is one that a user signs in with for the first time.
func NewDevice(username string) Device { return Device{ID: rand.Text(), Username: username} }

// deviceClaims are the payload of a device's token.
type deviceClaims struct {
	jwt.RegisteredClaims

	Version int64 `json:"ver"`
}

// Validate is called by the parser; see [claims.Validate].
func (c deviceClaims) Validate() error {
	if !user.ValidName(c.Subject) || !validSessionID(c.ID) {
		return errors.New("sub or jti is no device's")
	}
	return nil
}

// SignDevice makes the token by which a device is known from now on.
func (k *Keyring) SignDevice(d Device) (Token, error) {
	now := k.now()
	t, err := k.sign(deviceClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: deviceIssuer, Subject: d.Username, ID: d.ID,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(DeviceTTL)),
		},
		Version: d.Version,
	})
	if err != nil {
		return "", fmt.Errorf("sign device of %s: %w", d.Username, err)
	}
	return t, nil
}

// VerifyDevice reads a device's token. Problems: as of [Keyring.Verify]; whoever gets
// them is a stranger.
func (k *Keyring) VerifyDevice(t Token) (Device, error) {
	var c deviceClaims
	if err := k.verify(t, deviceIssuer, &c); err != nil {
		return Device{}, err
	}
	return Device{ID: c.ID, Username: c.Subject, Version: c.Version}, nil
}
