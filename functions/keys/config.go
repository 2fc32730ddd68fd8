package keys

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/management"
)

// Config is what the function reads from its environment.
type Config struct {
	management.Config

	// MaxKeys bounds the keys of one environment, revoked ones aside: each takes memory
	// in every checker, so that one team without a bound could fill it for all.
	MaxKeys int `env:"MAX_KEYS_PER_ENVIRONMENT, default=10000"`

	// CheckerURL is the checkers' Service, whose name their certificate bears, and
	// CheckerCAFile has the authority, PEM, that vouches for it: with both, each checker is
	// asked whether it follows a change that somebody waits for. Without, its canary says
	// so within CANARY_INTERVAL.
	CheckerURL    string `env:"CHECKER_URL"`
	CheckerCAFile string `env:"CHECKER_CA_FILE"`
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
	service := New(cfg, st, identity.NewGuard(keys, st), log, ctx.Done())
	return &funcmain.Function{Handler: service.Handler(), Store: st, Collectors: []prometheus.Collector{service.checkers.took}}, nil
}
