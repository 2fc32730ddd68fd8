// Command wiring runs the wiring function.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/wiring"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
)

func main() { funcmain.Main("wiring", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg wiring.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	cl, err := cluster.Open(cluster.Options{
		Kubeconfig: cfg.Kubeconfig, EntryPoints: cfg.EntryPoints, RouteTLS: cfg.RouteTLS, CheckerURL: cfg.CheckerURL, SystemNamespace: cfg.SystemNamespace,
	})
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	service, err := wiring.New(cfg, st, cl, log)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &funcmain.Function{
		Handler:    funcmain.Events(log, service.Receive),
		Background: service.Background,
		Store:      st,
		Collectors: service.Collectors(),
		Close:      func(context.Context) error { service.Close(); return st.Close() },
	}, nil
}
