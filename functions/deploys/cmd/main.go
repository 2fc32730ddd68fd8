// Command deploys runs the deploys function.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/deploys"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
)

func main() { funcmain.Main("deploys", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg deploys.Config
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
	parts := deploys.Parts{
		Apps: st, History: st, Outbox: st, Cluster: cl, Registry: registry.New(cfg.AllowPrivateRegistries),
		Sessions: identity.NewGuard(ring, st), Log: log,
	}
	if cfg.Sink != "" {
		parts.Sink = buildevent.NewSink(cfg.Sink, cfg.EventSource)
	}
	service, err := deploys.New(cfg, parts)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &funcmain.Function{
		Handler:    service.Handler(),
		Background: service.Background,
		Store:      st,
		Collectors: service.Collectors(),
		Close:      func(ctx context.Context) error { return errors.Join(service.Close(ctx), st.Close()) },
	}, nil
}
