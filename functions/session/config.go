package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/management"
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
	management.Config // its keys include the private one

	// The first admin, made at start when there is no such user. Both or neither.
	AdminUsername string   `env:"ADMIN_USERNAME"`
	AdminPassword Password `env:"ADMIN_PASSWORD"`

	// HashesAtOnce bounds password hashes that run at the same time, 19 MiB each:
	// 4 need 76 MiB and keep four cores busy.
	HashesAtOnce int `env:"HASHES_AT_ONCE, default=4"`

	// Failed sign-ins as one user that are let through at once, and how long until one
	// more is: for each device that is known, and each address. A person mistypes a few
	// times; a guesser gets 2 890 guesses on the first day, then 2 880.
	Burst int           `env:"SIGN_IN_BURST, default=10"`
	Every time.Duration `env:"SIGN_IN_EVERY, default=30s"`

	// The same for all strangers together who try one user. It takes 300 addresses to use
	// up at once, and 6 to keep used up; so many get 17 280 guesses a day, and 3 000 more
	// on the first.
	UserBurst int           `env:"SIGN_IN_USER_BURST, default=3000"`
	UserEvery time.Duration `env:"SIGN_IN_USER_EVERY, default=5s"`

	// The same for a stranger's address with any user: an office behind one address is
	// many people.
	AddressBurst int           `env:"SIGN_IN_ADDRESS_BURST, default=60"`
	AddressEvery time.Duration `env:"SIGN_IN_ADDRESS_EVERY, default=2s"`
}

func (c Config) check() error {
	if min(c.Burst, c.UserBurst, c.AddressBurst) < 1 || min(c.Every, c.UserEvery, c.AddressEvery) <= 0 {
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

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("session", newFunction) }

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	service, err := New(cfg, Parts{Store: st, Sessions: identity.NewGuard(keys, st), Keys: keys, Log: log})
	if err != nil {
		return nil, err
	}
	if cfg.AdminUsername != "" {
		if err := service.EnsureAdmin(ctx, cfg.AdminUsername, string(cfg.AdminPassword)); err != nil {
			return nil, fmt.Errorf("first admin: %w", err)
		}
	}
	return &funcmain.Function{Handler: service.Handler(), Store: st, Collectors: service.Collectors()}, nil
}
