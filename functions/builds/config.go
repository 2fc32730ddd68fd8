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

	"github.com/sluicegate/sluice/shared/apisetup"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/registry"
)

// minToken is the minimum length of BUILDS_TOKEN, e.g. 16 random bytes in hex.
const minToken = 32

// Token is the secret in the path for Tekton's events.
type Token string

func (Token) String() string { return "[redacted]" }

// Config is the function's configuration.
type Config struct {
	apisetup.Config
	cluster.Connection
	registry.Access // for pipelines without a digest

	// Token is the secret in the path /events/{token}. TokenFile is a file that contains it.
	// Exactly one must be set.
	Token     Token  `env:"BUILDS_TOKEN"`
	TokenFile string `env:"BUILDS_TOKEN_FILE"`

	// DeploysURL is the address of the deploys function. Without it, new images are deployed at that
	// function's next tick.
	DeploysURL string `env:"DEPLOYS_URL"`

	// ImagePrefix is the destination of images: "{prefix}/{namespace}/{app}:{build ID}".
	ImagePrefix string `env:"IMAGE_PREFIX, required"`

	Pipeline          string `env:"BUILD_PIPELINE, default=sluice-build"`
	PipelineNamespace string `env:"BUILD_PIPELINE_NAMESPACE, default=sluice-system"`

	// ServiceAccount is the account of a run's pods. Its Secrets give access to private
	// repositories and registries; see infra/tekton/credentials.yaml. It must exist in each
	// namespace.
	ServiceAccount string `env:"BUILD_SERVICE_ACCOUNT, default=default"`

	// Timeout limits the duration of a run, and the time in which failed starts are retried.
	Timeout time.Duration `env:"BUILD_TIMEOUT, default=30m"`

	// PerApp is the maximum number of concurrent builds of an app.
	PerApp int `env:"BUILDS_PER_APP, default=4"`

	Workers int `env:"WORKERS, default=8"`
}

func (c Config) withToken() (Config, error) {
	if c.TokenFile == "" {
		return c, nil
	}
	if c.Token != "" {
		return c, errors.New("BUILDS_TOKEN and BUILDS_TOKEN_FILE are both set; set only one")
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
		return fmt.Errorf("BUILDS_TOKEN must have at least %d characters, without /, %%, ?, # and spaces", minToken)
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

//nolint:gochecknoinits // required by the functions framework
func init() { funcmain.HTTP("builds", newFunction) }

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
	deploys := notify.New(cfg.DeploysURL, "/sluice/builds", log)
	service, err := New(cfg, Parts{
		Store: st, Cluster: cl, Registry: tags, Notifier: deploys,
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
