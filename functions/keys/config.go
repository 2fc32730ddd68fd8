package keys

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/functions/keys/internal/program"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/management"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage/counted"
)

// Config is what the function reads from its environment.
type Config struct {
	management.Config
	counted.Recent
	store.Outbox
	checkers.Settings

	// MaxKeys bounds the keys of one environment, revoked ones aside: each takes memory
	// in every checker, so that one team without a bound could fill it for all.
	MaxKeys int `env:"MAX_KEYS_PER_ENVIRONMENT, default=10000"`

	// LeakPrograms are the secret-scanning programs whose reports of leaked keys are taken:
	// NAME=URL with commas between, where URL has the keys with which one signs, e.g.
	// "github=https://api.github.com/meta/public_keys/secret_scanning". None by default.
	LeakPrograms program.List `env:"LEAK_PROGRAMS"`
}

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("keys", newFunction) }

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	st.AnnounceEvents(cfg.Events)
	service := New(cfg, st, identity.NewGuard(keys, st), log, ctx.Done())
	return &funcmain.Function{Handler: service.Handler(), Store: st, Collectors: []prometheus.Collector{service.checkers.took, service.leaks.results}}, nil
}
