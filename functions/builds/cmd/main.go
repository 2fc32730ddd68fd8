// Command builds runs the builds function.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/builds"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
)

func main() { funcmain.Main("builds", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg builds.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	ring, err := identity.OpenKeyring(cfg.Keys)
	if err != nil {
		return nil, err
	}
	cl, err := cluster.Open(cluster.Options{Kubeconfig: cfg.Kubeconfig, EntryPoints: cfg.EntryPoints})
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	deploys := nudge.New(cfg.DeploysURL, "/sluice/builds", log)
	service, err := builds.New(cfg, builds.Parts{
		Apps: st, Builds: st, Runs: cl, Registry: registry.New(cfg.AllowPrivateRegistries), Nudge: deploys,
		Sessions: identity.NewGuard(ring, st), Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &funcmain.Function{
		Handler: service.Handler(),
		Store:   st, Collectors: service.Collectors(),
		Close: func(ctx context.Context) error { service.Close(); return errors.Join(deploys.Close(ctx), st.Close()) },
	}, nil
}
