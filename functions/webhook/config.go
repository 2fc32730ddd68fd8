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
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
)

// Config is the function's configuration.
type Config struct {
	store.Database
	cluster.Connection
	cluster.Webhooks
	registry.Access

	// DeploysURL and BuildsURL are the addresses of the deploys and builds functions. Without an
	// address, that function is not notified and starts work at its next tick.
	DeploysURL string `env:"DEPLOYS_URL"`
	BuildsURL  string `env:"BUILDS_URL"`

	// CallsPerMinute is the number of verified calls that each app's webhook accepts in any
	// minute (promise W11).
	CallsPerMinute int `env:"CALLS_PER_MINUTE, default=60"`

	// RefusalsPerMinute is the number of unverified calls from one address in a minute that get
	// 401; further calls get 429. It is high because many users can share an address.
	RefusalsPerMinute int `env:"REFUSALS_PER_MINUTE, default=300"`

	// BaseURL is the public base URL of the API, for status_url. The default is the URL of the
	// request.
	BaseURL string `env:"BASE_URL"`

	// MaxWait is the longest wait for a result (promise W8). Proxies must allow requests of that
	// duration.
	MaxWait time.Duration `env:"MAX_WAIT, default=300s"`

	// Issuers are the accepted OIDC issuers (promise W13), as in the iss claim, e.g.
	// "https://token.actions.githubusercontent.com".
	Issuers []string `env:"OIDC_ISSUERS"`

	// IssuersCAFile is a PEM file of CA certificates to trust for issuers, in addition to the
	// system's. It is read at startup; a missing file adds none.
	IssuersCAFile string `env:"ISSUERS_CA_FILE"`
}

const source = "/sluice/webhook"

//nolint:gochecknoinits // required by the functions framework
func init() { funcmain.HTTP("webhook", newFunction) }

func both(first, second func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return first(ctx) })
		g.Go(func() error { return second(ctx) })
		return g.Wait()
	}
}

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
	deploys, builds := notify.New(cfg.DeploysURL, source, log), notify.New(cfg.BuildsURL, source, log)
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
