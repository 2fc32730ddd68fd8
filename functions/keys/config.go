package keys

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/functions/keys/internal/program"
	"github.com/sluicegate/sluice/shared/apisetup"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
)

// Config contains the settings of the function.
type Config struct {
	apisetup.Config
	usagequery.Recent
	store.Outbox
	checkers.Settings

	// MaxKeys is the maximum number of keys in an environment, except revoked ones.
	MaxKeys int `env:"MAX_KEYS_PER_ENVIRONMENT, default=10000"`

	// LeakPrograms contains the trusted secret-scanning programs as comma-separated NAME=URL. URL
	// returns their public keys, e.g. https://api.github.com/meta/public_keys/secret_scanning.
	LeakPrograms program.List `env:"LEAK_PROGRAMS"`
}

//nolint:gochecknoinits // the functions framework requires registration
func init() { funcmain.HTTP("keys", newFunction) }

func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	st.AnnounceEvents(cfg.Events)
	service := New(cfg, st, identity.NewGuard(keys, st), log, ctx.Done())
	return &funcmain.Function{Handler: service.Handler(), Store: st, Collectors: []prometheus.Collector{service.checkers.took, service.leaks.results}}, nil
}
