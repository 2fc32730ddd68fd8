// Command usage runs the usage function.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/usage"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/store"
)

func main() { funcmain.Main("usage", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg usage.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	ring, err := identity.OpenKeyring(cfg.SessionKeys)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	service := usage.New(cfg, st, identity.NewGuard(ring, st), log)
	return &funcmain.Function{
		Handler: service.Handler(),
		Store:   st,
		Close:   func(context.Context) error { return st.Close() },
	}, nil
}
