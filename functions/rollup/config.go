package rollup

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
)

// Config is what the function reads from its environment.
type Config struct {
	store.Database
	store.Outbox

	// Parallel bounds the transactions under way at once: enough to hide the
	// store's latency, too few to crowd out the checkers' writes.
	Parallel int `env:"ROLLUP_PARALLEL, default=8"`
	// Run bounds one run, in seconds, below the minute after which the next
	// begins. What is left over is done by the next one.
	Run int `env:"ROLLUP_RUN_SECONDS, default=50"`
}

func (c Config) run() time.Duration { return time.Duration(c.Run) * time.Second }

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.CloudEvent("rollup", newFunction) }

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	st.AnnounceEvents(cfg.Events)
	service := New(cfg, st, log)
	return &funcmain.Function{Receive: service.Receive, Collectors: service.Collectors(), Store: st}, nil
}

// Once does one run, without a server around it. The error has been logged.
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
	defer func() { _ = st.Close() }() // the process ends
	st.AnnounceEvents(cfg.Events)
	return New(cfg, st, log).Once(ctx)
}
