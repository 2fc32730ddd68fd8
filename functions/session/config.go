package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/apisetup"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
)

// Password is a password in the configuration. It prints as "[redacted]".
type Password string

// LogValue implements [slog.LogValuer].
func (Password) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func (Password) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer].
func (Password) GoString() string { return "[redacted]" }

// Config is the function's configuration.
type Config struct {
	apisetup.Config // SESSION_KEYS_DIR must contain a private key

	// The first admin, created at startup unless a user was ever created. Set both or neither.
	AdminUsername string   `env:"ADMIN_USERNAME"`
	AdminPassword Password `env:"ADMIN_PASSWORD"`

	// HashesAtOnce is the number of concurrent password hashes. Each takes 19 MiB.
	HashesAtOnce int `env:"HASHES_AT_ONCE, default=4"`

	// Burst and Every limit the failed sign-ins of a user from one device or address: the number
	// at once, and the interval after which one more is allowed.
	Burst int           `env:"SIGN_IN_BURST, default=10"`
	Every time.Duration `env:"SIGN_IN_EVERY, default=30s"`

	// UserBurst and UserEvery limit the failed sign-ins of a user from all unknown clients
	// together. By default, it takes 300 addresses to reach this limit, and 6 to stay at it.
	UserBurst int           `env:"SIGN_IN_USER_BURST, default=3000"`
	UserEvery time.Duration `env:"SIGN_IN_USER_EVERY, default=5s"`

	// AddressBurst and AddressEvery limit the failed sign-ins from an unknown address, for all
	// users together. They are higher because an office can share an address.
	AddressBurst int           `env:"SIGN_IN_ADDRESS_BURST, default=60"`
	AddressEvery time.Duration `env:"SIGN_IN_ADDRESS_EVERY, default=2s"`
}

func (c Config) check() error {
	if min(c.Burst, c.UserBurst, c.AddressBurst) < 1 || min(c.Every, c.UserEvery, c.AddressEvery) <= 0 {
		return errors.New("SIGN_IN_* must be positive")
	}
	if (c.AdminUsername == "") != (c.AdminPassword == "") {
		return errors.New("set both ADMIN_USERNAME and ADMIN_PASSWORD, or neither")
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

//nolint:gochecknoinits // required by the functions framework
func init() { funcmain.HTTP("session", newFunction) }

func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	service, err := New(cfg, Parts{Store: st, Sessions: identity.NewGuard(keys, st), Keys: keys, Log: log})
	if err != nil {
		return nil, err
	}
	if err := service.EnsureAdmin(ctx, cfg.AdminUsername, string(cfg.AdminPassword)); err != nil {
		return nil, fmt.Errorf("first admin: %w", err)
	}
	return &funcmain.Function{Handler: service.Handler(), Store: st, Collectors: service.Collectors()}, nil
}
