// Package apisetup opens the store and the session keys for functions of the management API.
package apisetup

import (
	"context"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/store"
)

// Config is the common configuration of these functions.
type Config struct {
	store.Database

	Calls httpapi.Budget // for each caller

	SessionKeys string `env:"SESSION_KEYS_DIR, required"` // directory; public keys suffice except for signing
}

// Open returns the store, which the caller must close, and the keys.
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
