package usage

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/management"
)

// Config is what the function reads from its environment.
type Config struct {
	management.Config

	// Recent is for how long counters that were read serve other requests, in
	// seconds. It adds to a report's age; the checkers' flush interval is 2 s by
	// default, so counts show within 4 s. 0 reads them for every request.
	Recent int `env:"RECENT_SECONDS, default=2"`
}

func (c Config) recent() time.Duration { return time.Duration(c.Recent) * time.Second }

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("usage", newFunction) }

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	service := New(cfg, st, identity.NewGuard(keys, st), log)
	return &funcmain.Function{Handler: service.Handler(), Store: st}, nil
}
