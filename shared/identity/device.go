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
	// DeviceTTL is the time for which a device is known after its last sign-in.
	DeviceTTL = 90 * 24 * time.Hour

	deviceIssuer = "sluice-device"
)

// Device is a browser or command line with which a user has signed in. It grants no access. Its
// failed sign-ins have a separate limit, so that other clients cannot block the user.
type Device struct {
	ID       string // 26 of [A-Z2-7]
	Username string
	Version  int64 // of the user; the device is unknown after a change
}

// NewDevice returns a device for a user's first sign-in with it.
func NewDevice(username string) Device { return Device{ID: rand.Text(), Username: username} }

type deviceClaims struct {
	jwt.RegisteredClaims

	Version int64 `json:"ver"`
}

// Validate implements [jwt.ClaimsValidator].
func (c deviceClaims) Validate() error {
	if !user.ValidName(c.Subject) || !validSessionID(c.ID) {
		return errors.New("invalid sub or jti")
	}
	return nil
}

// SignDevice returns a new token for a device.
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

// VerifyDevice returns the device of a token. It returns the problems of [Keyring.Verify].
func (k *Keyring) VerifyDevice(t Token) (Device, error) {
	var c deviceClaims
	if err := k.verify(t, deviceIssuer, &c); err != nil {
		return Device{}, err
	}
	return Device{ID: c.ID, Username: c.Subject, Version: c.Version}, nil
}
