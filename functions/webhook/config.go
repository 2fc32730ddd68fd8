package webhook

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/webhook/internal/issuers"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
)

// Config is what the function reads from its environment.
type Config struct {
	store.Database
	cluster.Connection
	cluster.Webhooks
	registry.Access

	// DeploysURL and BuildsURL are where those functions take CloudEvents; without
	// one a deployment or a build waits for that function's next tick.
	DeploysURL string `env:"DEPLOYS_URL"`
	BuildsURL  string `env:"BUILDS_URL"`

	// CallsPerMinute is how often an app's webhook may be called by who knows its token:
	// 60 are one a second (promise W11), far beyond any pipeline.
	CallsPerMinute int `env:"CALLS_PER_MINUTE, default=60"`

	// RefusalsPerMinute is how many calls of an address, without proof, are told so;
	// those beyond are told to wait. It says nothing about calls with proof. Many people
	// can share an address, and refusals cost next to nothing.
	RefusalsPerMinute int `env:"REFUSALS_PER_MINUTE, default=300"`

	// BaseURL is the API's own address from outside, e.g. "https://sluice.example.com",
	// for status_url. Without one it is the address by which a caller has reached it.
	BaseURL string `env:"BASE_URL"`

	// MaxWait is how long a call may wait for its outcome (promise W8). What is
	// in front of the function must let a request take that long.
	MaxWait time.Duration `env:"MAX_WAIT, default=300s"`

	// Issuers are those whose tokens prove who a pipeline is (promise W13), as their tokens
	// name them, e.g. "https://token.actions.githubusercontent.com". Of others none are
	// believed, whatever an app trusts.
	Issuers []string `env:"OIDC_ISSUERS"`

	// IssuersCAFile has the authorities, PEM, that vouch for issuers' certificates besides
	// the system's, e.g. "/var/run/sluice/issuers-ca/ca.crt". It is read at start; a missing
	// file adds none.
	IssuersCAFile string `env:"ISSUERS_CA_FILE"`
}

// source is who the notifications are from.
const source = "/sluice/webhook"

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("webhook", newFunction) }

// both runs what works in the background until ctx ends, or one of them fails.
func both(first, second func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return first(ctx) })
		g.Go(func() error { return second(ctx) })
		return g.Wait()
	}
}

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	tokens, err := cluster.Open(cluster.Options{Kubeconfig: cfg.Kubeconfig, WebhookNamespace: cfg.WebhookNamespace, Log: log})
	if err != nil {
		return nil, err
	}
	watched := tokens.WatchWebhookTokens(log)
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	tags, err := registry.New(cfg.Access, log)
	if err != nil {
		return nil, err
	}
	vouching, err := openIssuers(cfg, log)
	if err != nil {
		return nil, err
	}
	deploys, builds := nudge.New(cfg.DeploysURL, source, log), nudge.New(cfg.BuildsURL, source, log)
	service, err := New(cfg, Parts{
		Tokens: tokens, Watched: watched, Issuers: vouching, Apps: st, Registry: tags, Deploys: deploys, Builds: builds, Random: rand.Reader, Log: log, Ending: ctx.Done(),
	})
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{
		Handler: service.Handler(),
		Store:   st, Collectors: service.Collectors(), Background: both(watched.Run, service.Run),
		Close: func(ctx context.Context) error {
			err := errors.Join(deploys.Close(ctx), builds.Close(ctx))
			tags.Close()
			return err
		},
	}, nil
}

// openIssuers makes those who vouch for pipelines. It asks none of them yet.
func openIssuers(cfg Config, log *slog.Logger) (*issuers.Issuers, error) {
	roots, err := outbound.Authorities(cfg.IssuersCAFile)
	if err != nil {
		return nil, fmt.Errorf("ISSUERS_CA_FILE: %w", err)
	}
	return issuers.New(cfg.Issuers, &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
	}, log, time.Now)
}
