// Command session runs the session function.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/session"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/store"
)

func main() { funcmain.Main("session", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg session.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	keys, err := identity.OpenKeyring(cfg.Keys)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	service, err := session.New(cfg, session.Parts{
		Store: st, Sessions: identity.NewGuard(keys, st), Keys: keys, Log: log,
	})
	if err != nil {
		return nil, err
	}
	if cfg.AdminUsername != "" {
		if err := service.EnsureAdmin(ctx, cfg.AdminUsername, string(cfg.AdminPassword)); err != nil {
			return nil, fmt.Errorf("first admin: %w", err)
		}
	}
	return &funcmain.Function{
		Handler: service.Handler(),
		Store:   st, Collectors: service.Collectors(),
		Close: func(context.Context) error { return st.Close() },
	}, nil
}
