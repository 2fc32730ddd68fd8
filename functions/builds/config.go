package builds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/management"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/registry"
)

// minToken is the least length of BUILDS_TOKEN, in bytes: 16 random ones in hex.
const minToken = 32

// Token is the secret part of the path that Tekton's events come to.
type Token string

// String hides the token from logs.
func (Token) String() string { return "[redacted]" }

// Config is what the function reads from its environment.
type Config struct {
	management.Config
	cluster.Connection
	registry.Access // for pipelines that do not tell a digest

	// Token is what Tekton's events must have in their path, /events/{token}: they
	// carry no signature. TokenFile is a file that holds it, with or without a line's
	// end, on platforms that give secrets as files. One of the two must be set.
	Token     Token  `env:"BUILDS_TOKEN"`
	TokenFile string `env:"BUILDS_TOKEN_FILE"`

	// DeploysURL is where the deploys function takes CloudEvents; without one a built
	// image waits for its next tick.
	DeploysURL string `env:"DEPLOYS_URL"`

	// ImagePrefix is where builds push to: "{this}/{namespace}/{app}:{build}".
	ImagePrefix string `env:"IMAGE_PREFIX, required"`

	Pipeline          string `env:"BUILD_PIPELINE, default=sluice-build"`            // that builds an app
	PipelineNamespace string `env:"BUILD_PIPELINE_NAMESPACE, default=sluice-system"` // where that is

	// ServiceAccount is the account of the app's namespace that a run's pods have: its
	// Secrets are what private repositories and registries are reached with, see
	// infra/tekton/credentials.yaml. Every namespace has "default"; another one has to be
	// made in each.
	ServiceAccount string `env:"BUILD_SERVICE_ACCOUNT, default=default"`

	// Timeout is after how long Tekton ends a run, and after how long a build that
	// could not be started is given up.
	Timeout time.Duration `env:"BUILD_TIMEOUT, default=30m"`

	// PerApp is the maximum number of an app's builds that run at the same time. Later builds
	// are queued.
	PerApp int `env:"BUILDS_PER_APP, default=4"`

	// Workers bounds builds that a pass looks at at the same time.
	Workers int `env:"WORKERS, default=8"`
}

// withToken reads the token's file, if there is one.
func (c Config) withToken() (Config, error) {
	if c.TokenFile == "" {
		return c, nil
	}
	if c.Token != "" {
		return c, errors.New("BUILDS_TOKEN and BUILDS_TOKEN_FILE are both set")
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return c, fmt.Errorf("BUILDS_TOKEN_FILE: %w", err)
	}
	c.Token = Token(strings.TrimSpace(string(text)))
	return c, nil
}

func (c Config) check() error {
	if len(c.Token) < minToken || strings.ContainsAny(string(c.Token), "/%?# ") {
		return fmt.Errorf("the token of BUILDS_TOKEN or its file must have at least %d characters, and none that a path treats specially", minToken)
	}
	if c.Timeout <= 0 || c.Workers < 1 || c.PerApp < 1 {
		return errors.New("BUILD_TIMEOUT, WORKERS and BUILDS_PER_APP must be positive")
	}
	if problems := validation.IsDNS1123Subdomain(c.ServiceAccount); len(problems) > 0 {
		return fmt.Errorf("BUILD_SERVICE_ACCOUNT %q: %s", c.ServiceAccount, problems[0])
	}
	if err := registry.Check(c.ImagePrefix + "/namespace/app:build"); err != nil {
		return fmt.Errorf("IMAGE_PREFIX %q: %w", c.ImagePrefix, err)
	}
	return nil
}

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("builds", newFunction) }

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	cl, err := cluster.Open(cluster.Options{Kubeconfig: cfg.Kubeconfig, Log: log})
	if err != nil {
		return nil, err
	}
	tags, err := registry.New(cfg.Access, log)
	if err != nil {
		return nil, err
	}
	deploys := nudge.New(cfg.DeploysURL, "/sluice/builds", log)
	service, err := New(cfg, Parts{
		Store: st, Cluster: cl, Registry: tags, Nudge: deploys,
		Sessions: identity.NewGuard(keys, st), Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{
		Handler: service.Handler(),
		Store:   st, Collectors: service.Collectors(),
		Close: func(ctx context.Context) error { service.Close(); return deploys.Close(ctx) },
	}, nil
}
