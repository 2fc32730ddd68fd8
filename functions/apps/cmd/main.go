// Command apps runs the apps function.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/apps"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
)

func main() { funcmain.Main("apps", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg apps.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	keys, err := identity.OpenKeyring(cfg.Keys)
	if err != nil {
		return nil, err
	}
	runs, err := cluster.Open(cluster.Options{
		Kubeconfig: cfg.Kubeconfig, EntryPoints: cfg.EntryPoints, RouteTLS: cfg.RouteTLS, SystemNamespace: cfg.SystemNamespace, WebhookNamespace: cfg.WebhookNamespace,
	})
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	service, err := apps.New(cfg, apps.Parts{
		Store: st, Cluster: runs, Registry: registry.New(cfg.AllowPrivateRegistries), Sessions: identity.NewGuard(keys, st), Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &funcmain.Function{
		Handler: service.Handler(),
		Store:   st,
		Close:   func(ctx context.Context) error { return errors.Join(service.Close(ctx), st.Close()) },
	}, nil
}
