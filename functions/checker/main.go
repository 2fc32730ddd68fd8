package checker

import (
	"context"
	"log/slog"

	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
)

// Main runs a checker until SIGTERM or SIGINT. It exits with 1 on failure.
func Main() { funcmain.Serve("checker", build) }

func build(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	c, err := New(cfg, store.NewFeed(cfg.Project), st, log)
	if err != nil {
		return nil, err
	}
	secure, err := c.TLSConfig()
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{
		Handler:    c,
		Connected:  c.Connected,
		Collectors: c.Collectors(),
		Private:    c.Private(),
		Store:      st,
		Lean:       true,
		Spans:      c.Export,
		TLS:        secure,
		MaxHeader:  denial.MaxHeader,
		Background: c.Run,
	}, nil
}
