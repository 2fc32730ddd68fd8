// The checker, as a program.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/checker"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
)

func main() { funcmain.Main("checker", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg checker.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	c, err := checker.New(cfg, store.NewFeed(cfg.Project), st, log)
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
		TLS:        secure,
		MaxHeader:  checker.MaxHeader,
		Background: c.Run,
		Close:      func(context.Context) error { return st.Close() },
	}, nil
}
