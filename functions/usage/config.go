package usage

import (
	"context"
	"log/slog"

	"github.com/sluicegate/sluice/shared/apisetup"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
)

// Config contains the settings of the function.
type Config struct {
	apisetup.Config
	usagequery.Recent
	checkers.Settings
}

//nolint:gochecknoinits // the functions framework requires registration
func init() { funcmain.HTTP("usage", newFunction) }

func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	service := New(cfg, st, identity.NewGuard(keys, st), log)
	return &funcmain.Function{Handler: service.Handler(), Store: st}, nil
}
