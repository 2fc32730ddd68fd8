// Command webhook runs the webhook function.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/webhook"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
)

// source is who the nudges are from.
const source = "/sluice/webhook"

func main() { funcmain.Main("webhook", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg webhook.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	tokens, err := cluster.Open(cluster.Options{
		Kubeconfig: cfg.Kubeconfig, EntryPoints: []string{"none"}, WebhookNamespace: cfg.WebhookNamespace, // writes no route
	})
	if err != nil {
		return nil, err
	}
	watched := tokens.WatchWebhookTokens(log)
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	tags := registry.New(cfg.RegistryPrivate)
	deploys, builds := nudge.New(cfg.DeploysURL, source, log), nudge.New(cfg.BuildsURL, source, log)
	service, err := webhook.New(cfg, webhook.Parts{
		Tokens: tokens, Watched: watched, Apps: st, Registry: tags, Deploys: deploys, Builds: builds, Random: rand.Reader, Log: log, Ending: ctx.Done(),
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &funcmain.Function{
		Handler: service.Handler(),
		Store:   st, Collectors: service.Collectors(), Background: watched.Run,
		Close: func(ctx context.Context) error {
			err := errors.Join(deploys.Close(ctx), builds.Close(ctx))
			tags.Close()
			return errors.Join(err, st.Close())
		},
	}, nil
}
