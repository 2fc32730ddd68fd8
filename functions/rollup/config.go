package rollup

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
)

// Config contains the settings of the function.
type Config struct {
	store.Database
	store.Outbox

	// Parallel is the number of concurrent transactions. It must not slow down the checkers'
	// writes.
	Parallel int `env:"ROLLUP_PARALLEL, default=8"`
	// Run is the time limit of a run, in seconds. The next run continues the work.
	Run int `env:"ROLLUP_RUN_SECONDS, default=50"`
}

func (c Config) run() time.Duration { return time.Duration(c.Run) * time.Second }

//nolint:gochecknoinits // the functions framework requires registration
func init() { funcmain.CloudEvent("rollup", newFunction) }

func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	st.AnnounceEvents(cfg.Events)
	service := New(cfg, st, log)
	return &funcmain.Function{Receive: service.Receive, Collectors: service.Collectors(), Store: st}, nil
}

// Once performs a run without a server. It logs the error that it returns.
func Once(ctx context.Context, log *slog.Logger) error {
	cfg, err := funcmain.Read[Config](ctx)
	var st *store.Store
	if err == nil {
		st, err = store.Open(ctx, cfg.Project)
	}
	if err != nil {
		log.ErrorContext(ctx, "open rollup failed", "error", err)
		return err
	}
	defer func() { _ = st.Close() }()
	st.AnnounceEvents(cfg.Events)
	return New(cfg, st, log).Once(ctx)
}
