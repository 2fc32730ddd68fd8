// Package management opens what every function of the management API works with: the
// store, and the keys by which it knows who calls.
package management

import (
	"context"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/store"
)

// Config is what these functions read from their environment, whatever they do: each
// embeds it in its own.
type Config struct {
	store.Database

	Calls httpapi.Budget // of each caller of the API

	SessionKeys string `env:"SESSION_KEYS_DIR, required"` // directory of the session keys; the public ones do, but for signing
}

// Open opens the store, which is its caller's to close, and the keys.
func (c Config) Open(ctx context.Context) (*store.Store, *identity.Keyring, error) {
	if err := c.Calls.Check(); err != nil {
		return nil, nil, err
	}
	keys, err := identity.OpenKeyring(c.SessionKeys)
	if err != nil {
		return nil, nil, err
	}
	st, err := store.Open(ctx, c.Project)
	if err != nil {
		return nil, nil, err
	}
	return st, keys, nil
}
