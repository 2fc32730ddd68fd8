package session

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/trace"
)

// Password is a password in the configuration. It prints as "[redacted]".
type Password string

// LogValue keeps the password out of logs.
func (Password) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps the password out of anything printed.
func (Password) String() string { return "[redacted]" }

// GoString keeps the password out of %#v.
func (Password) GoString() string { return "[redacted]" }

// Config is what the function reads from its environment.
type Config struct {
	Project string `env:"GOOGLE_CLOUD_PROJECT, required"` // Google Cloud project of the Firestore database
	Keys    string `env:"SESSION_KEYS_DIR, required"`     // directory of the session keys, the private one included

	// The first admin, made at start when there is no such user. Both or neither.
	AdminUsername string   `env:"ADMIN_USERNAME"`
	AdminPassword Password `env:"ADMIN_PASSWORD"`

	// TrustProxy says whom to believe about a client's address (see trace.Trust).
	// Without a proxy in front its word would be the client's, and let anyone escape
	// the throttle; behind one it should be believed: otherwise all clients share the
	// proxy's address.
	TrustProxy trace.Trust `env:"TRUST_PROXY, default=false"`

	// HashesAtOnce bounds password hashes that run at the same time, 19 MiB each:
	// 4 need 76 MiB and keep four cores busy.
	HashesAtOnce int `env:"HASHES_AT_ONCE, default=4"`

	// Failed sign-ins that are let through at once, and how long until one more is.
	// A person mistypes a few times; a guesser gets 8 640 guesses a day per user.
	UserBurst int           `env:"SIGN_IN_USER_BURST, default=10"`
	UserEvery time.Duration `env:"SIGN_IN_USER_EVERY, default=10s"`

	// The same per address: an office behind one address is many people.
	AddressBurst int           `env:"SIGN_IN_ADDRESS_BURST, default=60"`
	AddressEvery time.Duration `env:"SIGN_IN_ADDRESS_EVERY, default=2s"`
}

func (c Config) check() error {
	if c.UserBurst < 1 || c.AddressBurst < 1 || c.UserEvery <= 0 || c.AddressEvery <= 0 {
		return errors.New("the sign-in limits must be positive")
	}
	if (c.AdminUsername == "") != (c.AdminPassword == "") {
		return errors.New("ADMIN_USERNAME and ADMIN_PASSWORD go together")
	}
	if c.AdminUsername == "" {
		return nil
	}
	if err := user.CheckName(c.AdminUsername); err != nil {
		return fmt.Errorf("ADMIN_USERNAME: %w", err)
	}
	if err := user.CheckPassword(string(c.AdminPassword)); err != nil {
		return fmt.Errorf("ADMIN_PASSWORD: %w", err)
	}
	return nil
}
