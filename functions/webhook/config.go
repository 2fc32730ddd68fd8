package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/trace"
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

	// TrustProxy says whom to believe about a client's address (see trace.Trust). Behind
	// a proxy that is not believed all clients share the proxy's address.
	TrustProxy trace.Trust `env:"TRUST_PROXY, default=false"`
}

// source is who the notifications are from.
const source = "/sluice/webhook"

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("webhook", newFunction) }

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
	deploys, builds := nudge.New(cfg.DeploysURL, source, log), nudge.New(cfg.BuildsURL, source, log)
	service, err := New(cfg, Parts{
		Tokens: tokens, Watched: watched, Apps: st, Registry: tags, Deploys: deploys, Builds: builds, Random: rand.Reader, Log: log, Ending: ctx.Done(),
	})
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{
		Handler: service.Handler(),
		Store:   st, Collectors: service.Collectors(), Background: watched.Run,
		Close: func(ctx context.Context) error {
			err := errors.Join(deploys.Close(ctx), builds.Close(ctx))
			tags.Close()
			return err
		},
	}, nil
}
